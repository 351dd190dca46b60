// SPDX-License-Identifier: BSD-3-Clause
// See srd_world.hpp.
#include "tests/srd/srd_world.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "providers/port/middleware/rails_port.hpp"

namespace weft::test {

namespace {

constexpr uint32_t kNextRail = 1000;  // between the numbers of a station's hosts

std::unique_ptr<transport::Port> port_of(std::span<sim::Host* const> hosts,
                                         const transport::Capabilities& capabilities) {
  std::vector<std::unique_ptr<transport::Port>> ports;
  for (sim::Host* host : hosts)
    ports.push_back(std::make_unique<port::SimPort>(*host, capabilities));
  if (ports.size() == 1) return std::move(ports[0]);
  Result<std::unique_ptr<transport::Port>> bundle = middleware::RailsPort::bundle(std::move(ports));
  WEFT_CHECK(bundle);
  return std::move(*bundle);
}

}  // namespace

SrdLife::SrdLife(sim::Network& network, std::span<sim::Host* const> hosts,
                 const srd::Config& config, uint64_t seed, const middleware::FaultOptions& faults,
                 const transport::Capabilities& capabilities, const PortAbove& above)
    : random(seed), network_(network), received_(64), sending_(64) {
  auto faulty = std::make_unique<middleware::FaultPort>(port_of(hosts, capabilities), faults,
                                                        [&network] { return network.now(); });
  fault = faulty.get();
  auto tapped = std::make_unique<TapPort>(std::move(faulty));
  tap = tapped.get();
  port = std::move(tapped);
  if (above) port = above(std::move(port), seed);
  engine = std::make_unique<srd::Engine>(*port, config, random);
  for (sim::Host* host : hosts) host->notify(this, 0);
}

void SrdLife::wake(Instant at) {
  if (!alive_ || at >= wakes_at_) return;
  wakes_at_ = at;
  network_.events().schedule(at, *this, ++ticket_);
}

void SrdLife::on_event(Instant now, uint64_t argument) {
  if (argument == 0) return wake(now + Duration::from_ns(100));  // an arrival
  if (!alive_ || argument != ticket_) return;
  wakes_at_ = Instant::never();
  if (now < paused_until_) return wake(paused_until_);
  turn(now);
}

void SrdLife::turn(Instant now) {
  const size_t n = port->receive(received_);
  if (n != 0) {
    {
      const EngineRuns runs;
      engine->receive({received_.data(), n}, now);
    }
    port->release({received_.data(), n});
  }
  if (engine->next_deadline() <= now) {
    const EngineRuns runs;
    engine->expire(now);
  }
  const bool all_sent = send(now);
  if (after_turn) after_turn();
  std::vector<pollfd> none;
  const Instant soon = now + Duration::from_us(1);
  if (!all_sent || n == received_.size() || engine->wants_transmit() ||
      !port->prepare_wait(none, !all_sent))
    wake(soon);
  const Instant deadline = engine->next_deadline();
  if (!deadline.is_never()) wake(std::max(deadline, soon));
}

bool SrdLife::send(Instant now) {
  for (int round = 0; round < 4; ++round) {
    if (begin_ == end_) {
      begin_ = 0;
      {
        const EngineRuns runs;
        end_ = engine->transmit(sending_, now);
      }
      if (end_ == 0) return true;
    }
    begin_ += port->transmit({sending_.data() + begin_, end_ - begin_});
    if (begin_ != end_) return false;
  }
  return true;
}

SrdStation::SrdStation(sim::Network& network, uint32_t index, const SrdOptions& options)
    : network_(network), options_(options), index_(index), memory_(index, options.memory) {
  for (uint32_t rail = 0; rail < options.rails; ++rail)
    hosts_.push_back(&network.add_host(sim::host_address(index + rail * kNextRail)));
  live(0);
}

void SrdStation::live(uint32_t life) {
  srd::Config config = options_.config;
  config.start = network_.now();
  middleware::FaultOptions faults = options_.faults;
  faults.seed = options_.seed * 1000 + index_;
  const auto used = std::span<sim::Host* const>(hosts_).first(options_.rails);
  for (size_t rail = used.size(); rail < hosts_.size(); ++rail) hosts_[rail]->notify(this, rail);
  all_lives_.push_back(std::make_unique<SrdLife>(network_, used, config,
                                                 options_.seed * 64 + index_ + life * 8, faults,
                                                 options_.capabilities, options_.above));
  life_ = all_lives_.back().get();
  send_cq_ = std::make_unique<transport::CompletionQueue>(options_.cq_capacity);
  recv_cq_ = std::make_unique<transport::CompletionQueue>(options_.cq_capacity);
  key_ = engine().keys().insert(memory_.data(), memory_.size(), Access::all, kDomain);
  transport::QpConfig qp = options_.qp;
  qp.type = QpType::srd;
  qp.domain = kDomain;
  qp.send_cq = send_cq_.get();
  qp.recv_cq = recv_cq_.get();
  const Result<srd::QueuePair*> made = engine().create_qp(qp, number_);
  WEFT_CHECK(made);
  qp_ = *made;
  WEFT_CHECK(number_.value == 0 || qp_->number == number_);
  number_ = qp_->number;
  ready();
}

void SrdStation::on_event(Instant, uint64_t argument) {
  sim::PacketQueue& received = hosts_[argument]->received();
  while (!received.empty()) network_.pool().give(received.pop());
}

void SrdStation::ready() {
  QueuePairAttributes change;
  change.access = Access::all;
  for (const QpState state : {QpState::reset, QpState::init, QpState::rtr, QpState::rts}) {
    change.state = state;
    WEFT_CHECK(engine().modify_qp(*qp_, change));
  }
}

void SrdStation::fail() {
  QueuePairAttributes change;
  change.state = QpState::err;
  WEFT_CHECK(engine().modify_qp(*qp_, change));
}

void SrdStation::inject(const SentFrame& frame) {
  sim::Packet* const packet = network_.pool().take();
  packet->path = frame.path;
  packet->length = static_cast<uint32_t>(frame.bytes.size());
  packet->ip_id = frame.ip_id;
  packet->ecn = frame.ecn;
  std::memcpy(packet->bytes, frame.bytes.data(), frame.bytes.size());
  sim::Host* to = hosts_[0];
  for (sim::Host* host : hosts_)
    if (host->address() == frame.path.destination) to = host;
  to->arrive(packet, network_.now());
}

uint64_t SrdStation::total(transport::Count c) const {
  uint64_t sum = 0;
  for (const auto& life : all_lives_) sum += life->engine->counters()[c];
  return sum;
}

void SrdStation::restart(bool same_number) {
  life_->kill();
  if (!same_number) number_ = QpNum{};
  for (sim::Host* host : hosts_)
    while (!host->received().empty()) network_.pool().give(host->received().pop());
  live(++lives_);
}

PostStatus SrdStation::recv(uint64_t id, const Sge& sge) {
  const RecvRequest request{id, {&sge, 1}};
  const PostStatus status = [&] {
    const EngineRuns runs;
    return engine().post_recv(*qp_, {&request, 1});
  }();
  life_->kick();
  return status;
}

PostStatus SrdStation::post(SrdStation& to, SendRequest request) {
  QueuePairAttributes change;
  change.path = AddressVector{.destination = to.host().address()};
  change.dest_qpn = to.number();
  WEFT_CHECK(engine().modify_qp(*qp_, change));
  const PostStatus status = [&] {
    const EngineRuns runs;
    return engine().post_send(*qp_, {&request, 1}, network_.now());
  }();
  if (status.accepted != 0) life_->kick();
  return status;
}

PostStatus SrdStation::write(SrdStation& to, uint32_t length, size_t offset, uint64_t id) {
  const Sge own = sge(0, length);
  SendRequest r;
  r.id = id;
  r.opcode = Opcode::write;
  r.sges = {&own, 1};
  r.remote_address = to.address_of(offset);
  r.rkey = RKey{to.key()};
  return post(to, r);
}

std::vector<Completion> SrdStation::drain(transport::CompletionQueue& queue) {
  std::vector<Completion> all;
  Completion c;
  while (queue.pop({&c, 1}) != 0) all.push_back(c);
  return all;
}

SrdWorld::SrdWorld(const SrdOptions& options) {
  for (uint32_t i = 0; i < options.stations; ++i)
    stations.push_back(std::make_unique<SrdStation>(network, i, options));
  for (size_t i = 0; i < stations.size(); ++i)
    for (size_t j = i; j < stations.size(); ++j)
      for (uint32_t rail = 0; rail < options.rails; ++rail)
        network.connect(stations[i]->host(rail), stations[j]->host(rail), options.link);
}

bool SrdWorld::run_until(const std::function<bool()>& done, Duration limit) {
  const Instant end = network.now() + limit;
  while (!done()) {
    if (network.now() > end || !network.events().step()) return done();
  }
  return true;
}

}  // namespace weft::test
