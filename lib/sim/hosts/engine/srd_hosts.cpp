// SPDX-License-Identifier: BSD-3-Clause
// See srd_hosts.hpp.
#include "lib/sim/hosts/engine/srd_hosts.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim::engines {
namespace {

constexpr uint32_t kDomain = 1;

srd::QueuePair* open(srd::Engine& engine, transport::CompletionQueue& completions,
                     uint32_t requests) {
  const Result<srd::QueuePair*> qp = engine.create_qp({.type = QpType::srd,
                                                       .domain = kDomain,
                                                       .send_cq = &completions,
                                                       .recv_cq = &completions,
                                                       .max_send_wr = requests,
                                                       .max_recv_wr = 1,
                                                       .max_send_sge = 1,
                                                       .max_recv_sge = 1,
                                                       .max_inline = 0});
  must(qp ? Result<void>() : Result<void>(qp.error()));
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    QueuePairAttributes change;
    change.state = state;
    change.access = Access::all;
    must(engine.modify_qp(**qp, change));
  }
  return *qp;
}

}  // namespace

SrdHosts::Host::Host(SprayWiring& wiring, uint32_t node, uint32_t port_number,
                     const srd::Config& config, uint64_t seed, const Scratch& scratch,
                     uint32_t requests)
    : random(seed),
      port(wiring, node, port_number),
      engine(port, config, random),
      completions(requests + 1),
      key(engine.keys().insert(scratch.data(), scratch.size(), Access::all, kDomain)),
      qp(open(engine, completions, requests)),
      station{engine, port, port_number} {}

SrdHosts::SrdHosts(const fabric::Topology& topology, const flow::Scheme& scheme,
                   fabric::EventWheel& wheel, fabric::Fabric& fabric, fabric::Spray& spray,
                   std::span<const flow::FlowSpec> flows, uint64_t seed)
    : scheme_(scheme),
      wheel_(wheel),
      fabric_(fabric),
      wiring_{scheme, wheel, fabric, spray.routes, {}, {}, {}},
      turns_(wheel, fabric),
      scratch_(flows),
      flows_(flows),
      hosts_(topology.node_count()),
      left_(flows.size()),
      failed_(flows.size()),
      finished_at_(flows.size(), flow::kNever) {
  fabric.on_drop([this](const fabric::Packet& packet) { wiring_.frames.give(packet.number); });
  std::vector<uint32_t> requests(topology.node_count(), 1);
  for (const flow::FlowSpec& flow : flows) requests[flow.src] += Scratch::requests_of(flow.bytes);
  for (const uint32_t node : topology.hosts())
    hosts_[node] =
        std::make_unique<Host>(wiring_, node, topology.ports_of(node)[0], config_of(node),
                               seed * 0x10001 + node, scratch_, requests[node]);
}

// They know each other before the flow begins, as endpoints do that exchange their addresses.
void SrdHosts::introduce(Host& source, Host& target) {
  const Instant now{wheel_.now()};
  const srd::Credentials its =
      target.engine.issue(source.port.address(), source.qp->number.value >> 16, now);
  WEFT_CHECK(source.engine.accept(target.port.address(), target.qp->number.value >> 16, its, now));
}

// As for the light hosts, except loss detection, which is the engine's.
srd::Config SrdHosts::config_of(uint32_t node) const {
  const congestion::Preset& preset = scheme_.presets[scheme_.preset_of_node[node]];
  srd::Config config;
  config.congestion = preset;
  if (scheme_.kind->credit != nullptr) config.credit = congestion::credit_rules(preset);
  config.policy = scheme_.paths.choice;
  config.paths = std::min(scheme_.paths.count, srd::kMostPaths);
  config.least_rto = Duration{scheme_.timeout_ps};
  config.limits.max_qp_wr = UINT32_MAX;
  const uint32_t packet = scheme_.payload + scheme_.data_overhead;
  config.ack_every = std::max(1u, (scheme_.ack_every_bytes + packet / 2) / packet);
  return config;
}

void SrdHosts::start(uint32_t number, const flow::FlowSpec& spec) {
  Host& source = host_of(spec.src);
  Host& target = host_of(spec.dst);
  QueuePairAttributes to;
  to.path = AddressVector{.destination = target.port.address()};
  to.dest_qpn = target.qp->number;
  must(source.engine.modify_qp(*source.qp, to));
  introduce(source, target);
  for (uint64_t at = 0; at < spec.bytes; at += Scratch::kLongest, ++left_[number]) {
    const uint64_t piece = std::min(Scratch::kLongest, spec.bytes - at);
    const Sge sge{scratch_.data(), static_cast<uint32_t>(piece), LKey{source.key}};
    const SendRequest request{.id = number,
                              .opcode = Opcode::write,
                              .flags = SendFlags::signaled,
                              .sges = {&sge, 1},
                              .remote_address = reinterpret_cast<uint64_t>(scratch_.data()),
                              .rkey = RKey{target.key}};
    WEFT_CHECK(source.engine.post_send(*source.qp, {&request, 1}, Instant{wheel_.now()}));
  }
  take_turn(source);
}

void SrdHosts::deliver(const fabric::Packet& packet) {
  ++fabric_.counters().delivered;
  data_delivered_ += packet.tag.event == fabric::Event::data && !packet.tag.control;
  WEFT_DCHECK(packet.flow < wiring_.pairs.size());
  Host& host = host_of(wiring_.pairs[packet.flow].dst);
  host.port.arrive(packet);
  turns_.receive(host.station);
  take_turn(host);
}

void SrdHosts::wake(const fabric::Packet& event) {
  Host& host = host_of(fabric_.port(event.target).node);
  if (turns_.is_current(host.station, event)) take_turn(host);
}

void SrdHosts::take_turn(Host& host) {
  turns_.run(host.station);
  take_completions(host);
  turns_.plan(host.station);
}

// A flow of several WRITEs is done when all of them have completed, in any order.
void SrdHosts::take_completions(Host& host) {
  Completion done;
  while (host.completions.pop({&done, 1}) != 0) {
    const auto number = static_cast<uint32_t>(done.id);
    if (done.status != Status::success) failed_[number] = true;
    WEFT_DCHECK(left_[number] > 0);
    if (--left_[number] != 0) continue;
    if (!failed_[number]) finished_at_[number] = wheel_.now();
    ++finished_;
  }
}

uint64_t SrdHosts::retransmitted() const noexcept {
  uint64_t sum = 0;
  for (const std::unique_ptr<Host>& host : hosts_)
    if (host) sum += host->engine.counters()[transport::Count::tx_retransmits];
  return sum;
}

double SrdHosts::rate(uint32_t number) const noexcept {
  const srd::Engine& engine = hosts_[flows_[number].src]->engine;
  const Gid target = address_of(flows_[number].dst);
  for (uint32_t i = 0; i < engine.peer_count(); ++i) {
    const srd::Peer* const peer = engine.peer(i);
    if (peer == nullptr || peer->address != target) continue;
    if (left_[number] == 0 || peer->tx.flight == nullptr || !peer->tx.rtt.known()) return 0;
    return static_cast<double>(peer->tx.flight->flow.window()) * 8e12 /
           static_cast<double>(peer->tx.rtt.smoothed.ps);
  }
  return 0;
}

}  // namespace weft::sim::engines
