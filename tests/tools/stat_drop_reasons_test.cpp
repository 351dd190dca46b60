// SPDX-License-Identifier: BSD-3-Clause
// Every counter that there is, of the engine, the agent, the fault middleware and the ports (whose
// names are read from the sources): weft_stat lists it with what was dropped, or with the others,
// as it stands here.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "lib/roce/cm/agent.hpp"
#include "lib/transport/counters.hpp"
#include "providers/port/middleware/fault_lane.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tools/stat/drop_reasons.hpp"

using namespace weft;

namespace {

const std::set<std::string> kDrops = {
    // engine
    "rx_bad_telemetry", "rx_unagreed_telemetry", "rx_too_short", "rx_bad_version", "rx_bad_opcode",
    "rx_bad_payload", "rx_bad_dest_qpn", "rx_icrc_error", "rx_unknown_qp", "rx_no_group",
    "rx_wrong_service", "rx_bad_source", "rx_bad_pkey", "rx_bad_qkey", "rx_wrong_state",
    "rx_no_receive", "rx_too_long", "rx_message_lost", "rx_message_rest", "rx_ghost_ack",
    "rx_bad_response", "rx_stale_response", "rx_lost_resource", "rx_after_nak", "rx_unsupported",
    "rx_pull_failed", "access_errors", "request_errors", "events_lost", "rx_out_of_window",
    "rx_over_credit", "rx_guesses_dropped", "rx_other_incarnation", "rx_stale_stream",
    "rx_unknown_peer",
    // agent
    "cm_malformed", "cm_strangers", "cm_bad_source", "cm_unexpected", "cm_answers_dropped",
    "cm_no_memory",
    // middleware
    "fault_loss", "fault_burst", "fault_ack_loss", "fault_blackhole", "fault_overflow",
    // ports
    "af_packet_rx_foreign", "af_packet_rx_malformed", "af_packet_rx_ring_drops",
    "af_packet_tx_no_neighbour", "af_packet_tx_errors", "af_xdp_rx_foreign", "af_xdp_rx_malformed",
    "af_xdp_tx_no_neighbour", "af_xdp_tx_unreadable", "af_xdp_tx_too_long", "af_xdp_rx_dropped",
    "af_xdp_rx_ring_full", "af_xdp_rx_no_buffer", "af_xdp_tx_invalid", "dpdk_rx_foreign",
    "dpdk_rx_malformed", "dpdk_tx_no_neighbour", "dpdk_tx_link_down", "dpdk_tx_unreadable",
    "dpdk_tx_too_long", "dpdk_handed_drops", "dpdk_rx_missed", "dpdk_rx_no_mbuf", "shm_tx_no_peer",
    "shm_tx_stalled", "shm_tx_unreadable", "shm_tx_too_long", "shm_rx_revoked", "shm_rx_corrupt",
    "shm_rx_wrong_user", "shm_rx_bad_hello", "shm_rx_impostors", "shm_pulls_denied", "sim_no_route",
    "sim_too_long", "udp_rx_truncated", "udp_rx_errors", "udp_rx_buffer_drops", "udp_tx_errors",
    "udp_tx_foreign_port", "udp_rx_foreign_sender", "udp_forward_drops", "udp_forward_refused",
    "udp_rx_telemetry_errors"};

const std::set<std::string> kOthers = {
    // engine
    "tx_packets", "tx_bytes", "tx_retransmits", "tx_rewinds", "tx_acks", "tx_naks", "tx_rnr_naks",
    "tx_calls", "rx_calls", "tx_read_responses", "rx_packets", "rx_bytes", "rx_by_reference",
    "rx_acks", "rx_naks", "rx_rnr_naks", "timeouts", "retry_exceeded", "rnr_exceeded",
    "rx_duplicates", "rx_duplicate_acks", "rx_replayed_reads", "rx_replayed_atomics",
    "rx_out_of_sequence", "rx_early", "rx_ecn_marked", "rx_cnps", "tx_cnps",
    "acks_without_telemetry", "tx_reports", "rx_reports", "paced_waits", "paced_late_ns",
    "paced_late_most_ns", "peers_failing_icrc", "cq_overruns", "connects_throttled", "tx_fills",
    "tx_aborts", "tx_resets", "rx_resets", "tail_probes", "path_probes", "path_losses",
    "rx_trimmed", "trim_losses", "streams_replaced", "peers_lost", "peers_forgotten",
    "peers_challenged", "spurious_retransmits", "tx_rail_requests", "ways_joined",
    // agent
    "cm_received", "cm_sent", "cm_repeated", "cm_duplicates", "cm_refused", "cm_deferred",
    "cm_stale", "cm_evicted", "cm_expired",
    // middleware
    "fault_corrupt_header", "fault_corrupt_payload", "fault_corrupt_icrc", "fault_dup",
    "fault_reorder", "fault_delay", "fault_rate", "fault_truncate", "fault_pad", "fault_merge",
    "fault_ecn", "pcap_frames", "pcap_lost", "tracer_messages",
    // ports
    "af_packet_rx_frames", "af_packet_rx_trains", "af_packet_rx_neighbour", "af_packet_tx_frames",
    "af_packet_tx_neighbour", "af_xdp_rx_frames", "af_xdp_tx_frames", "af_xdp_rx_neighbour",
    "af_xdp_tx_neighbour", "af_xdp_generic", "af_xdp_buffers_free", "af_xdp_chains",
    "af_xdp_zero_copy", "af_xdp_busy_poll", "dpdk_rx_frames", "dpdk_tx_frames", "dpdk_rx_neighbour",
    "dpdk_tx_neighbour", "dpdk_tx_no_buffer", "dpdk_buffers_free", "dpdk_handed_over",
    "dpdk_rx_joined", "dpdk_flow_rules", "dpdk_flow_rules_refused", "shm_tx_by_reference",
    "shm_tx_doorbells", "shm_peers_lost", "shm_detach_cuts", "shm_links_in", "shm_links_out",
    "udp_rx_frames", "udp_rx_bytes", "udp_rx_super_packets", "udp_tx_frames", "udp_tx_bytes",
    "udp_tx_trains", "udp_forwarded", "udp_forward_received", "udp_steering_programs", "udp_probes",
    "udp_rx_telemetry_frames", "udp_rx_multicast_frames", "udp_sender_lookups",
    "udp_sender_ports_held", "udp_asked", "udp_port_unreachable", "udp_icmp_unbelieved"};

// Counters of ports begin with the port's name.
void add_names_of_ports(std::set<std::string>& names) {
  const std::filesystem::path ports = test::source_root() / "providers" / "port";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ports)) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::string folder = entry.path().parent_path().filename();
    if (folder == "middleware") folder = "(?:pcap|tracer|rails)";
    const std::regex counter("\\{\"(" + folder + "_[a-z0-9_]+)\", ");
    for (std::sregex_iterator at(text.begin(), text.end(), counter), end; at != end; ++at)
      names.insert((*at)[1]);
  }
}

}  // namespace

TEST_CASE("each counter is listed with what was dropped, or with the others, as it should be") {
  std::set<std::string> names;
  for (const std::string_view name : transport::kCountNames) names.emplace(name);
  for (const std::string_view name : middleware::kFaultNames) names.emplace(name);
  for (size_t i = 0; i < static_cast<size_t>(cm::AgentCount::end_); ++i)
    names.emplace(cm::name(static_cast<cm::AgentCount>(i)));
  const size_t before = names.size();
  add_names_of_ports(names);
  CHECK(names.size() > before + 60);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(kDrops.count(name) + kOthers.count(name) == 1);  // else say here which it is
    CHECK(stat::is_drop(name) == (kDrops.count(name) != 0));
  }
  for (const std::set<std::string>& known : {kDrops, kOthers})
    for (const std::string& name : known) {
      INFO(name << " is no counter any more");
      CHECK(names.count(name) == 1);
    }
}
