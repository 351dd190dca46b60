// SPDX-License-Identifier: BSD-3-Clause
// Prints a snapshot as text: a block per device, without zero values.
#include <cinttypes>
#include <cstdio>
#include <string>

#include "tools/stat/drop_reasons.hpp"
#include "tools/stat/print.hpp"

namespace weft::stat {

namespace {

uint64_t whole(const Json& object, const char* key) {
  return object.contains(key) ? object.at(key).get<uint64_t>() : 0;
}
double number(const Json& object, const char* key) {
  return object.contains(key) ? object.at(key).get<double>() : 0;
}
std::string text(const Json& object, const char* key) { return object.at(key).get<std::string>(); }

// Three digits and a unit: "12.3 M".
std::string scaled(double value) {
  const char* unit = " ";
  for (const char* const next : {" k", " M", " G", " T"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = next;
  }
  char out[32];
  std::snprintf(out, sizeof out,
                value < 10    ? "%.2f%s"
                : value < 100 ? "%.1f%s"
                              : "%.0f%s",
                value, unit);
  return out;
}

// The congestion window; "-" if it is unlimited.
std::string window(const Json& flow) {
  const uint64_t bytes = whole(flow, "window_bytes");
  return bytes == 0 || bytes >= 1ull << 40 ? std::string("-")
                                           : scaled(static_cast<double>(bytes)) + "B";
}

void print_flow(const Json& flow) {
  const double rtt = number(flow, "rtt_us"), rate = number(flow, "rate_bps");
  std::printf(
      "      sent %s/s, acknowledged %s/s; in flight %sB, window %s, rate %s, RTT %s",
      scaled(number(flow, "sent_per_second")).c_str(),
      scaled(number(flow, "acked_per_second")).c_str(),
      scaled(number(flow, "in_flight_bytes")).c_str(), window(flow).c_str(),
      rate > 0 ? (scaled(rate) + "b/s").c_str() : "-",
      rtt > 0 ? (std::to_string(static_cast<int64_t>(rtt * 10) / 10) + " us").c_str() : "-");
  if (const uint64_t marks = whole(flow, "ecn_marks")) std::printf(", ECN marks %" PRIu64, marks);
  std::printf("\n");
}

// Programs of an older weft do not say.
const char* way(const Json& peer) {
  const auto found = peer.find("in_memory");
  return found != peer.end() && found->get<bool>() ? ", in memory" : "";
}

void print_queue_pair(const Json& qp) {
  std::printf("  queue pair 0x%06" PRIx64 " %s %s", whole(qp, "number"), text(qp, "type").c_str(),
              text(qp, "state").c_str());
  if (qp.contains("peer"))
    std::printf(" to 0x%06" PRIx64 " at %s%s", whole(qp, "peer"), text(qp, "address").c_str(),
                way(qp));
  std::printf("; posted: %" PRIu64 " sends, %" PRIu64 " receives\n", whole(qp, "posted_sends"),
              whole(qp, "posted_recvs"));
  if (!qp.contains("peer")) return;
  print_flow(qp);
  if (qp.at("waits_for_receive").get<bool>())
    std::printf("      waits for a receive at the peer (RNR)\n");
}

void print_path(const Json& path) {
  const double rtt = number(path, "rtt_us");
  std::printf("      path %5" PRIu64 "  %-7s  RTT %8.1f us", whole(path, "source_port"),
              text(path, "health").c_str(), rtt);
  if (const uint64_t sent = whole(path, "sent"))
    std::printf("  sent %" PRIu64 ", lost %" PRIu64 ", marked %" PRIu64, sent, whole(path, "lost"),
                whole(path, "ecn_marks"));
  std::printf("\n");
}

void print_peer(const Json& peer) {
  std::printf("  peer %s endpoint 0x%06" PRIx64 "%s%s\n", text(peer, "address").c_str(),
              whole(peer, "endpoint"), way(peer),
              peer.at("active").get<bool>() ? "" : "; idle: nothing in flight");
  print_flow(peer);
  const uint64_t resting = whole(peer, "resting_messages"), late = whole(peer, "timeouts_in_a_row");
  if (resting != 0)
    std::printf("      %" PRIu64 " messages wait for a receive at the peer (RNR)\n", resting);
  if (late != 0) std::printf("      %" PRIu64 " retransmission timeouts in a row\n", late);
  for (const Json& path : peer.at("paths")) print_path(path);
}

void print_counters(const Json& device, bool drops, const char* title) {
  bool any = false;
  const Json none = Json::object();
  const Json& rates = device.contains("per_second") ? device.at("per_second") : none;
  for (const auto& [name, value] : device.at("counters").items()) {
    if (value.get<uint64_t>() == 0 || is_drop(name) != drops) continue;
    std::printf("%s%s %" PRIu64, any ? ", " : title, name.c_str(), value.get<uint64_t>());
    if (rates.contains(name)) std::printf(" (%s/s)", scaled(rates.at(name).get<double>()).c_str());
    any = true;
  }
  if (any) std::printf("\n");
}

void print_device(const Json& device) {
  std::printf("%s  %s  MTU %" PRIu64 "\n", text(device, "device").c_str(),
              text(device, "gid").c_str(), whole(device, "active_mtu"));
  if (const std::string note = text(device, "note"); !note.empty())
    std::printf("  note: %s\n", note.c_str());
  if (device.contains("per_second")) {
    const Json& rates = device.at("per_second");
    std::printf("  out %sb/s, in %sb/s\n", scaled(8 * number(rates, "tx_bytes")).c_str(),
                scaled(8 * number(rates, "rx_bytes")).c_str());
  }
  for (const Json& qp : device.at("queue_pairs")) print_queue_pair(qp);
  for (const Json& peer : device.at("peers")) print_peer(peer);
  print_counters(device, true, "  dropped: ");
  print_counters(device, false, "  counters: ");
  for (const Json& event : device.at("events")) {
    std::printf("  %.3f s ago: %s", number(event, "ago_us") / 1e6, text(event, "what").c_str());
    if (const uint64_t qp = whole(event, "queue_pair"))
      std::printf(", queue pair 0x%06" PRIx64, qp);
    if (event.contains("peer")) std::printf(" to %s", text(event, "peer").c_str());
    if (event.contains("why")) std::printf(": %s", text(event, "why").c_str());
    std::printf("\n");
  }
}

}  // namespace

void print_text(const Json& snapshot) {
  std::printf("%s, process %" PRIu64 "\n", text(snapshot, "program").c_str(),
              whole(snapshot, "pid"));
  for (const Json& device : snapshot.at("devices")) print_device(device);
  if (snapshot.at("devices").empty()) std::printf("no device open\n");
}

}  // namespace weft::stat
