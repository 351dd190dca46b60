// SPDX-License-Identifier: BSD-3-Clause
// See world.hpp.
#include "tests/virtual_time/world.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::test {

namespace {

std::unique_ptr<TapPort> make_port(sim::Host& host, const StationOptions& options) {
  auto sim = std::make_unique<port::SimPort>(host, options.capabilities);
  sim->hide_ip_id(options.hides_ip_id);
  std::unique_ptr<transport::Port> inner = std::move(sim);
  if (options.wrap) inner = options.wrap(std::move(inner));
  return std::make_unique<TapPort>(std::move(inner));
}

// A set-up call of a test that must work.
void must(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "set-up failed: %s\n", result.error().message.c_str());
  std::abort();
}

}  // namespace

Station::Station(World& world, uint32_t index, sim::Host& host, const StationOptions& options)
    : host_(host),
      tap_(make_port(host, options)),
      random_(world.seed() * 64 + index),
      engine_(*tap_, options.engine, random_),
      driver_(world.network().events(), *tap_, engine_, options.turns),
      memory_(index, options.memory),
      key_(engine_.keys().insert(memory_.data(), memory_.size(), Access::all, kDomain)) {
  host_.notify(&driver_, sim::EngineHost::kArrival);
}

Endpoint::Endpoint(Station& station, transport::QpConfig config, uint32_t cq_capacity)
    : station_(station),
      send_cq_(new transport::CompletionQueue(cq_capacity)),
      recv_cq_(new transport::CompletionQueue(cq_capacity)) {
  config.domain = Station::kDomain;
  config.send_cq = send_cq_.get();
  config.recv_cq = recv_cq_.get();
  Result<roce::QueuePair*> qp = station.engine().create_qp(config);
  must(qp ? Result<void>() : Result<void>(qp.error()));
  qp_ = *qp;
}

PostStatus Endpoint::send(const SendRequest& request) {
  const PostStatus status =
      station_.engine().post_send(*qp_, {&request, 1}, station_.host().network().now());
  station_.driver().kick();
  return status;
}

PostStatus Endpoint::recv(const RecvRequest& request) {
  const PostStatus status = station_.engine().post_recv(*qp_, {&request, 1});
  station_.driver().kick();
  return status;
}

PostStatus Endpoint::recv(uint64_t id, std::initializer_list<Sge> sges) {
  return recv({id, {sges.begin(), sges.size()}});
}

std::vector<Completion> Endpoint::drain(transport::CompletionQueue& queue) {
  std::vector<Completion> all;
  Completion c;
  while (queue.pop({&c, 1}) != 0) all.push_back(c);
  return all;
}

Station& World::add_station(const StationOptions& options) {
  const auto index = static_cast<uint32_t>(stations_.size());
  const Gid address = options.address == Gid{} ? sim::host_address(index) : options.address;
  sim::Host& host = network_.add_host(address);
  stations_.push_back(std::make_unique<Station>(*this, index, host, options));
  return *stations_.back();
}

sim::Link& World::cable(Station& a, Station& b, const sim::LinkOptions& options) {
  return network_.connect(a.host(), b.host(), options);
}

void World::to_rtr(Endpoint& e, const Gid& peer, QpNum peer_qpn, Psn expected,
                   const ConnectOptions& o) {
  roce::Engine& engine = e.station().engine();
  const QpType type = e.qp().type;
  QueuePairAttributes init{
      .state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}, .access = o.access};
  QueuePairAttributes rtr{.state = QpState::rtr};
  if (type == QpType::ud) {
    init.access.reset();
    init.qkey = o.qkey;
  } else {
    rtr.path = AddressVector{.destination = peer};
    rtr.path_mtu = o.mtu;
    rtr.dest_qpn = peer_qpn;
    rtr.rq_psn = expected;
  }
  if (type == QpType::rc || type == QpType::xrc_target) {
    rtr.max_dest_rd_atomic = o.max_dest_rd_atomic;
    rtr.min_rnr_timer = o.min_rnr_timer;
  }
  if (e.qp().reliable() && o.telemetry) rtr.telemetry = true;
  if (type == QpType::rc && o.selective_repeat) rtr.selective_repeat = true;
  must(engine.modify_qp(e.qp(), init));
  must(engine.modify_qp(e.qp(), rtr));
}

void World::to_rts(Endpoint& e, Psn first, const ConnectOptions& o) {
  QueuePairAttributes rts{.state = QpState::rts, .sq_psn = first};
  if (e.qp().type == QpType::rc || e.qp().type == QpType::xrc_initiator) {
    rts.max_rd_atomic = o.max_rd_atomic;
    rts.timeout = o.timeout;
    rts.retry_count = o.retry_count;
    rts.rnr_retry = o.rnr_retry;
  }
  must(e.station().engine().modify_qp(e.qp(), rts));
}

void World::connect(Endpoint& a, Endpoint& b, const ConnectOptions& o) {
  to_rtr(a, b.station().address(), b.qp().number, o.psn_b, o);
  to_rtr(b, a.station().address(), a.qp().number, o.psn_a, o);
  to_rts(a, o.psn_a, o);
  to_rts(b, o.psn_b, o);
}

bool World::run(uint64_t limit) {
  for (uint64_t i = 0; i < limit; ++i)
    if (!network_.events().step()) return true;
  return false;
}

void World::inject(Station& to, const transport::Path& path, const std::vector<std::byte>& bytes,
                   uint16_t ip_id) {
  sim::Packet* const packet = network_.pool().take();
  WEFT_CHECK(bytes.size() <= sim::Packet::kCapacity);
  packet->path = path;
  packet->length = static_cast<uint32_t>(bytes.size());
  packet->ip_id = ip_id;
  packet->ecn = path.traffic_class & 3;
  if (!bytes.empty()) std::memcpy(packet->bytes, bytes.data(), bytes.size());
  to.host().arrive(packet, now());
}

}  // namespace weft::test
