// SPDX-License-Identifier: BSD-3-Clause
// See hosts.hpp.
#include "lib/sim/engines/hosts.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "lib/base/check.hpp"

namespace weft::sim::engines {
namespace {

constexpr uint32_t kDomain = 1;
constexpr uint64_t kLongest = uint64_t{1} << 30;  // of one WRITE
constexpr uint32_t kCompletions = 64;
constexpr int kPatience = 64;  // calls of transmit() that an acknowledgement may wait

uint64_t longest_of(std::span<const flow::FlowSpec> flows) {
  uint64_t longest = 1;
  for (const flow::FlowSpec& flow : flows) longest = std::max(longest, flow.bytes);
  return std::min(longest, kLongest);
}

uint32_t requests_of(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kLongest - 1) / kLongest);
}

// The code of a retransmission time-out (C-RETRY-46): the first one that is not shorter.
uint8_t timeout_code(const flow::Scheme& scheme) {
  uint8_t code = 1;
  while (code < 31 && (int64_t{4'096'000} << code) < scheme.timeout_ps) ++code;
  return code;
}

// A set-up call that can only fail by a mistake of this file.
void must(const Result<void>& done) {
  if (!done) std::fprintf(stderr, "weft: %s\n", done.error().message.c_str());
  WEFT_CHECK(done);
}

}  // namespace

Scratch::Scratch(size_t size) : size_(size) {
  void* const memory =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  WEFT_CHECK(memory != MAP_FAILED);
  data_ = static_cast<std::byte*>(memory);
}

Scratch::~Scratch() { ::munmap(data_, size_); }

Hosts::Host::Host(Wiring& wiring, uint32_t node, uint32_t port_number,
                  const engine::EngineConfig& config, uint64_t seed, const Scratch& scratch)
    : random(seed),
      port(wiring, node, port_number),
      engine(port, config, random),
      completions(kCompletions),
      number(port_number),
      key(engine.keys().insert(scratch.data(), scratch.size(), Access::all, kDomain)) {}

Hosts::Hosts(const fabric::Topology& topology, const flow::Scheme& scheme,
             fabric::EventWheel& wheel, fabric::ChunkPool& pool, fabric::Fabric& fabric,
             fabric::TelemetryPool& telemetry, std::span<const flow::FlowSpec> flows, bool lossy,
             uint64_t seed)
    : topology_(topology),
      scheme_(scheme),
      wheel_(wheel),
      wiring_{scheme, wheel, pool, fabric, telemetry, {}, {}, {}},
      timeout_(lossy ? timeout_code(scheme) : uint8_t{0}),
      scratch_(longest_of(flows)),
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
engine::EngineConfig Hosts::config_of(uint32_t node) const {
  engine::EngineConfig config;
  config.congestion = scheme_.presets[scheme_.preset_of_node[node]];
  config.cnp_interval = Duration{scheme_.cnp_interval_ps};
  config.pacing_quantum = Duration{};
  config.frame_overhead = scheme_.data_overhead;
  config.credits = false;
  return config;
}

engine::QueuePair* Hosts::open(Host& host, uint32_t requests) {
  const engine::QpConfig config{.domain = kDomain,
                                .send_cq = &host.completions,
                                .recv_cq = &host.completions,
                                .max_send_wr = requests,
                                .max_recv_wr = 1,
                                .max_send_sge = 1,
                                .max_recv_sge = 1,
                                .max_inline = 0};
  const Result<engine::QueuePair*> qp = host.engine.create_qp(config);
  must(qp ? Result<void>() : Result<void>(qp.error()));
  return *qp;
}

// From RESET to RTS.
void Hosts::connect(Host& host, engine::QueuePair& qp, const Gid& peer, QpNum number) {
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
  connection = {open(source, requests_of(spec.bytes)), open(target, 1)};
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
  for (uint64_t at = 0; at < bytes; at += kLongest) {
    const uint64_t piece = std::min(kLongest, bytes - at);
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
  engine::Frame frame;
  const size_t n = host.port.receive({&frame, 1});
  host.engine.receive({&frame, n}, Instant{wheel_.now()});
  host.port.release({&frame, n});
  take_completions(host);
  take_turn(host);
}

void Hosts::wake(const fabric::Packet& event) {
  Host& host = host_of(wiring_.fabric.port(event.target).node);
  if (event.at != host.wake_at) return;  // an earlier one was planned since
  host.wake_at = flow::kNever;
  take_turn(host);
}

void Hosts::resume(uint32_t port) { take_turn(host_of(wiring_.fabric.port(port).node)); }

void Hosts::take_turn(Host& host) {
  const Instant now{wheel_.now()};
  if (host.engine.next_deadline() <= now) host.engine.expire(now);
  while (host.port.send_held() || send_one(host)) continue;
  take_completions(host);
  plan(host);
}

// Moves one frame from the engine to the port. An acknowledgement lets some calls pass, in case
// data goes its way: in virtual time they are one.
bool Hosts::send_one(Host& host) {
  if (!host.port.has_room()) return false;
  engine::TxFrame frame;
  for (int i = 0; i < kPatience && host.engine.wants_transmit(); ++i)
    if (host.engine.transmit({&frame, 1}, Instant{wheel_.now()}) != 0)
      return host.port.transmit({&frame, 1}) != 0;
  return false;
}

// The next turn: when the wire is idle if something waits for that, else at the engine's deadline.
void Hosts::plan(Host& host) {
  const int64_t now = wheel_.now();
  const int64_t idle = wiring_.fabric.port(host.number).free_at;
  const bool waits = idle > now && (host.engine.wants_transmit() || host.port.has_held());
  int64_t at = host.engine.next_deadline().is_never()
                   ? flow::kNever
                   : std::max(host.engine.next_deadline().ps, idle > now ? idle : now + 1);
  if (waits) at = std::min(at, idle);
  if (at >= host.wake_at) return;
  host.wake_at = at;
  wheel_.plan(at, fabric::Event::nic_wake, host.number);
}

void Hosts::take_completions(Host& host) {
  Completion done;
  while (host.completions.pop({&done, 1}) != 0) {
    const auto number = static_cast<uint32_t>(done.id);
    if (wiring_.connections[number].sender == nullptr) continue;  // flushed behind an error
    if (done.status == Status::success) finished_at_[number] = wheel_.now();
    ++finished_;
    close(number);
  }
}

void Hosts::close(uint32_t number) {
  Connection& connection = wiring_.connections[number];
  const flow::FlowSpec& spec = flows_[number];
  wiring_.ends.erase(Wiring::key(spec.src, connection.sender->number));
  wiring_.ends.erase(Wiring::key(spec.dst, connection.receiver->number));
  host_of(spec.src).engine.destroy_qp(connection.sender);
  host_of(spec.dst).engine.destroy_qp(connection.receiver);
  connection = {};
}

uint64_t Hosts::retransmitted() const noexcept {
  uint64_t sum = 0;
  for (const std::unique_ptr<Host>& host : hosts_)
    if (host) sum += host->engine.counters()[engine::Count::tx_retransmits];
  return sum;
}

double Hosts::rate(uint32_t number) const noexcept {
  const engine::QueuePair* const qp = wiring_.connections[number].sender;
  return qp != nullptr && qp->req.pacer ? qp->req.pacer->rate() : 0;
}

}  // namespace weft::sim::engines
