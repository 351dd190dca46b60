// SPDX-License-Identifier: BSD-3-Clause
// See hosts.hpp.
#include "lib/sim/hosts/engine/hosts.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim::engines {
namespace {

constexpr uint32_t kDomain = 1;
constexpr uint32_t kCompletions = 64;

// The local ACK timeout of a QP (C-RETRY-46): the smallest code that is not shorter than the RTO.
uint8_t timeout_code(const flow::Scheme& scheme) {
  uint8_t code = 1;
  while (code < 31 && (int64_t{4'096'000} << code) < scheme.timeout_ps) ++code;
  return code;
}

}  // namespace

Hosts::Host::Host(Wiring& wiring, uint32_t node, uint32_t port_number,
                  const roce::EngineConfig& config, uint64_t seed, const Scratch& scratch)
    : random(seed),
      port(wiring, node, port_number),
      engine(port, config, random),
      completions(kCompletions),
      key(engine.keys().insert(scratch.data(), scratch.size(), Access::all, kDomain)),
      station{engine, port, port_number} {}

Hosts::Hosts(const fabric::Topology& topology, const flow::Scheme& scheme,
             fabric::EventWheel& wheel, fabric::ChunkPool& pool, fabric::Fabric& fabric,
             fabric::TelemetryPool& telemetry, std::span<const flow::FlowSpec> flows, bool lossy,
             uint64_t seed)
    : topology_(topology),
      scheme_(scheme),
      wheel_(wheel),
      wiring_{scheme, wheel, pool, fabric, telemetry, {}, {}, {}},
      turns_(wheel, fabric),
      timeout_(lossy ? timeout_code(scheme) : uint8_t{0}),
      scratch_(flows),
      flows_(flows),
      hosts_(topology.node_count()),
      finished_at_(flows.size(), flow::kNever) {
  wiring_.connections.resize(flows.size());
  fabric.on_drop([this](const fabric::Packet& packet) { wiring_.frames.give(packet.number); });
  for (const uint32_t node : topology_.hosts())
    hosts_[node] = std::make_unique<Host>(wiring_, node, topology_.ports_of(node)[0],
                                          config_of(node), seed * 0x10001 + node, scratch_);
}

// As the light hosts have it: one packet at a time, no bursts, and the same bytes on the wire.
roce::EngineConfig Hosts::config_of(uint32_t node) const {
  roce::EngineConfig config;
  config.congestion = scheme_.presets[scheme_.preset_of_node[node]];
  config.cnp_interval = Duration{scheme_.cnp_interval_ps};
  config.pacing_quantum = Duration{};
  config.frame_overhead = scheme_.data_overhead;
  config.credits = false;
  return config;
}

roce::QueuePair* Hosts::open(Host& host, uint32_t requests) {
  const transport::QpConfig config{.domain = kDomain,
                                   .send_cq = &host.completions,
                                   .recv_cq = &host.completions,
                                   .max_send_wr = requests,
                                   .max_recv_wr = 1,
                                   .max_send_sge = 1,
                                   .max_recv_sge = 1,
                                   .max_inline = 0};
  const Result<roce::QueuePair*> qp = host.engine.create_qp(config);
  must(qp ? Result<void>() : Result<void>(qp.error()));
  return *qp;
}

// From RESET to RTS.
void Hosts::connect(Host& host, roce::QueuePair& qp, const Gid& peer, QpNum number) {
  QueuePairAttributes init{
      .state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}, .access = Access::all};
  QueuePairAttributes rtr{.state = QpState::rtr,
                          .path = AddressVector{.destination = peer},
                          .path_mtu = scheme_.payload,
                          .dest_qpn = number,
                          .rq_psn = Psn{},
                          .max_dest_rd_atomic = uint8_t{0},
                          .min_rnr_timer = uint8_t{1}};
  if (host.port.capabilities().telemetry) rtr.telemetry = true;
  const QueuePairAttributes rts{.state = QpState::rts,
                                .sq_psn = Psn{},
                                .max_rd_atomic = uint8_t{1},
                                .timeout = timeout_,
                                .retry_count = uint8_t{7},
                                .rnr_retry = uint8_t{7}};
  must(host.engine.modify_qp(qp, init));
  must(host.engine.modify_qp(qp, rtr));
  must(host.engine.modify_qp(qp, rts));
}

void Hosts::start(uint32_t number, const flow::FlowSpec& spec) {
  Host& source = host_of(spec.src);
  Host& target = host_of(spec.dst);
  Connection& connection = wiring_.connections[number];
  WEFT_DCHECK(connection.sender == nullptr && connection.receiver == nullptr);
  connection = {open(source, Scratch::requests_of(spec.bytes)), open(target, 1)};
  const QpNum sender = connection.sender->number;
  const QpNum receiver = connection.receiver->number;
  wiring_.ends[Wiring::key(spec.src, sender)] = {number, false};
  wiring_.ends[Wiring::key(spec.dst, receiver)] = {number, true};
  connect(target, *connection.receiver, source.port.address(), sender);
  connect(source, *connection.sender, target.port.address(), receiver);
  post(source, number, spec.bytes, target.key);
  take_turn(source);
}

void Hosts::post(Host& host, uint32_t number, uint64_t bytes, uint32_t remote_key) {
  for (uint64_t at = 0; at < bytes; at += Scratch::kLongest) {
    const uint64_t piece = std::min(Scratch::kLongest, bytes - at);
    const Sge sge{scratch_.data(), static_cast<uint32_t>(piece), LKey{host.key}};
    const bool last = at + piece == bytes;
    const SendRequest request{.id = number,
                              .opcode = Opcode::write,
                              .flags = last ? SendFlags::signaled : SendFlags::none,
                              .sges = {&sge, 1},
                              .remote_address = reinterpret_cast<uint64_t>(scratch_.data()),
                              .rkey = RKey{remote_key}};
    const PostStatus posted = host.engine.post_send(*wiring_.connections[number].sender,
                                                    {&request, 1}, Instant{wheel_.now()});
    WEFT_CHECK(posted);
  }
}

void Hosts::deliver(const fabric::Packet& packet) {
  ++wiring_.fabric.counters().delivered;
  const bool data = packet.tag.event == fabric::Event::data;
  data_delivered_ += data;
  const flow::FlowSpec& spec = flows_[packet.flow];
  Host& host = host_of(data ? spec.dst : spec.src);
  if (!host.port.arrive(packet)) return;
  turns_.receive(host.station);
  take_completions(host);
  take_turn(host);
}

void Hosts::wake(const fabric::Packet& event) {
  Host& host = host_of(wiring_.fabric.port(event.target).node);
  if (turns_.is_current(host.station, event)) take_turn(host);
}

void Hosts::resume(uint32_t port) { take_turn(host_of(wiring_.fabric.port(port).node)); }

void Hosts::take_turn(Host& host) {
  turns_.run(host.station);
  take_completions(host);
  turns_.plan(host.station);
}

void Hosts::take_completions(Host& host) {
  Completion done;
  while (host.completions.pop({&done, 1}) != 0) {
    const auto number = static_cast<uint32_t>(done.id);
    if (wiring_.connections[number].sender == nullptr) continue;  // flushed behind an error
    if (done.status == Status::success) finished_at_[number] = wheel_.now();
    ++finished_;
    WEFT_DCHECK(finished_ <= flows_.size());
    close(number);
  }
}

void Hosts::close(uint32_t number) {
  Connection& connection = wiring_.connections[number];
  const flow::FlowSpec& spec = flows_[number];
  WEFT_DCHECK(connection.sender != nullptr && connection.receiver != nullptr);
  wiring_.ends.erase(Wiring::key(spec.src, connection.sender->number));
  wiring_.ends.erase(Wiring::key(spec.dst, connection.receiver->number));
  host_of(spec.src).engine.destroy_qp(connection.sender);
  host_of(spec.dst).engine.destroy_qp(connection.receiver);
  connection = {};
}

uint64_t Hosts::retransmitted() const noexcept {
  uint64_t sum = 0;
  for (const std::unique_ptr<Host>& host : hosts_)
    if (host) sum += host->engine.counters()[transport::Count::tx_retransmits];
  return sum;
}

double Hosts::rate(uint32_t number) const noexcept {
  const roce::QueuePair* const qp = wiring_.connections[number].sender;
  return qp != nullptr && qp->req.pacer ? qp->req.pacer->rate() : 0;
}

}  // namespace weft::sim::engines
