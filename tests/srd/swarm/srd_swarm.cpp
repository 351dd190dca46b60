// SPDX-License-Identifier: BSD-3-Clause
// See srd_swarm.hpp: what happens to the stations, and what must be true in the end.
#include "tests/srd/swarm/srd_swarm.hpp"

#include <algorithm>

namespace weft::test {

using transport::Count;

namespace {
constexpr Duration kSafety = Duration::from_s(10);  // virtual time
constexpr Duration kLiveness = Duration::from_s(120);
constexpr int64_t kLeastSlice = 50, kMostSlice = 5'000;  // us between two looks from outside
}  // namespace

SrdSwarm::SrdSwarm(uint64_t seed, bool hashed)
    : seed_(seed),
      config_(draw_srd_swarm(seed)),
      random_(seed),
      net_(
          [this] {
            config_.options.memory = written(config_.options.stations, 0, 0);
            return config_;
          }(),
          seed) {
  net_.network.hash_arrivals(hashed);
  const uint32_t stations = config_.options.stations;
  const size_t end = config_.options.memory;
  apps_.resize(stations);
  for (uint32_t i = 0; i < stations; ++i) {
    apps_[i].met.assign(stations, 0);
    for (size_t at = source(1); at <= end; at += kSlot)
      std::memset(net_.stations[i]->at(at - kMargin), 0xEE, kMargin);
    begin_life(i);
  }
}

void SrdSwarm::begin_life(uint32_t i) {
  Application& app = apps_[i];
  app.free.clear();
  for (uint32_t d = 0; d < kDepth; ++d) app.free.push_back(d);
  app.live.assign(kDepth, {});
  app.waiting.clear();
  app.posted_receives = 0;
  app.last_ordered.assign(config_.options.stations, 0);
  app.parted.assign(config_.options.stations, false);
  QueuePairAttributes change;
  change.rnr_retry = config_.rnr_retry;
  expect(net_.stations[i]->engine().modify_qp(net_.stations[i]->qp(), change).ok(), "rnr_retry");
  for (uint64_t r = 0; r < kReceives; ++r) expect_receive(i, r);
  net_.stations[i]->life().after_turn = [this, i] { step(i); };
  net_.park_from(i);
}

// The process dies, and another one comes with its queue pair's number, or with another; its clock
// may be wrong, and it may use more or fewer paths, and addresses.
void SrdSwarm::restart(uint32_t i) {
  look(i);
  check_delivered(i, false);
  for (const Request& q : apps_[i].live)
    if (q.pending) leave_unknown(q);
  ++apps_[i].lives;
  ++apps_[i].disturbances;
  for (Sent& sent : sent_)
    if (sent.to == i) sent.seen = false;
  net_.stations[i]->options().config.paths = uint32_t{1} << random_.below(7);
  if (net_.stations[i]->rails() > 1)
    net_.stations[i]->options().rails =
        1 + static_cast<uint32_t>(random_.below(net_.stations[i]->rails()));
  const bool same_number = random_.below(2) != 0;
  net_.stations[i]->restart(same_number);
  // It begins with the present state of all others.
  for (size_t other = 0; other < apps_.size(); ++other)
    apps_[i].met[other] = apps_[other].disturbances;
  begin_life(i);
}

// The queue pair fails: everything that is posted is flushed, at once and once.
void SrdSwarm::fail(uint32_t i) {
  look(i);
  check_delivered(i, false);
  Application& app = apps_[i];
  ++app.disturbances;
  app.failing = true;
  net_.stations[i]->fail();
  look(i);
  app.failing = false;
  for (const Request& q : app.live) expect(!q.pending, "a request was not flushed");
  expect(app.posted_receives == 0, "a receive was not flushed");
  ++app.lives;
  net_.stations[i]->ready();
  begin_life(i);
}

void SrdSwarm::disturb() {
  check_bounds();
  const auto i = static_cast<uint32_t>(random_.below(net_.stations.size()));
  const uint64_t what = random_.below(9);
  if (what == 0) {
    // Long enough for streams to be renewed; and a peer with one path, which is cut all the while,
    // would be lost.
    net_.count(Disturbance::silence);
    net_.mend();
    silent_until_ = net_.network.now() + Duration::from_ms(1'500);
  } else if (what == 8) {
    net_.count(Disturbance::pause);
    net_.stations[i]->life().pause(Duration::from_us(int64_t{1} << random_.below(20)));
  } else if (what < 5) {
    net_.disturb(random_);
  } else if (apps_[i].lives + 1 < kLives) {
    net_.count(what == 5 ? Disturbance::failure : Disturbance::restart);
    what == 5 ? fail(i) : restart(i);
  }
}

void SrdSwarm::run() {
  Instant end = net_.network.now() + kSafety;
  while (traffic_.requests < config_.requests && net_.network.now() < end) {
    pass_time();
    if (random_.below(1'000'000) < config_.disturbed_ppm) disturb();
    if (net_.network.now() >= silent_until_) continue;
    end = end + (silent_until_ - net_.network.now());
    net_.network.events().run_until(silent_until_);
  }
  net_.calm();
  draining_ = true;
  const Instant limit = net_.network.now() + kLiveness;
  while (!all_done()) {
    if (net_.network.now() > limit)
      throw Violation("work did not end after the faults had stopped:" + describe());
    pass_time();
  }
  while (net_.parked()) net_.network.events().step();
  net_.network.events().run_until(net_.network.now() + Duration::from_s(4));
  for (uint32_t i = 0; i < apps_.size(); ++i) check_delivered(i, true);
  check_rest();
  check_counters();
  check_memory();
}

// A little, longer and longer while nothing is posted.
void SrdSwarm::pass_time() {
  for (auto& station : net_.stations) station->life().kick();
  const uint64_t before = traffic_.requests;
  const auto slice = static_cast<int64_t>(random_.below(static_cast<uint64_t>(slice_us_))) + 1;
  net_.network.events().run_until(net_.network.now() + Duration::from_us(slice));
  slice_us_ = traffic_.requests != before ? kLeastSlice : std::min(slice_us_ * 2, kMostSlice);
}

bool SrdSwarm::all_done() const {
  for (const Application& app : apps_)
    if (app.free.size() != kDepth ||
        std::find(app.parted.begin(), app.parted.end(), false) != app.parted.end())
      return false;
  return true;
}

// A SEND that succeeded has arrived, if nothing has happened to its receiver since it was posted.
// Ordered ones may wait for others.
void SrdSwarm::check_delivered(uint32_t i, bool ordered_too) {
  for (const Sent& sent : sent_) {
    if (sent.to != i || !sent.succeeded || sent.seen || (sent.ordered && !ordered_too)) continue;
    if (sent.disturbances == apps_[i].disturbances)
      throw Violation("a SEND of " + std::to_string(sent.length) + " bytes from " +
                      std::to_string(sent.from) + " to " + std::to_string(i) +
                      (sent.ordered ? ", ordered," : "") + " succeeded and never arrived");
  }
}

void SrdSwarm::check_bounds() {
  for (const auto& station : net_.stations) {
    const srd::Engine& engine = station->engine();
    expect(engine.peer_count() <= config_.options.config.max_peers, "too many peers");
    for (uint32_t p = 0; p < engine.peer_count(); ++p) {
      const srd::Peer& peer = *engine.peer(p);
      expect(peer.tx.next - peer.tx.una <= srd::kWindow, "more packets in flight than the window");
      expect(peer.rx.assemblies <= srd::AssemblyTable::kMostPerPeer,
             "too many incomplete messages");
      expect(peer.rx.responses <= 256, "too many responses");
    }
  }
}

// All has ended: no engine keeps anything of it.
void SrdSwarm::check_rest() {
  check_bounds();
  expect(net_.network.pool().lent() == 0, "a frame was not returned to the pool");
  for (uint32_t i = 0; i < apps_.size(); ++i) {
    const srd::Engine& engine = net_.stations[i]->engine();
    if (apps_[i].posted_receives != net_.stations[i]->qp().receives.size())
      throw Violation("station " + std::to_string(i) + ": " +
                      std::to_string(apps_[i].posted_receives) + " receives are posted, " +
                      std::to_string(net_.stations[i]->qp().receives.size()) +
                      " are queued; others are bound to messages that have ended");
    for (uint32_t p = 0; p < engine.peer_count(); ++p) {
      const srd::Peer& peer = *engine.peer(p);
      expect(
          peer.tx.messages == nullptr && peer.tx.rnr_waiting == 0 && peer.tx.awaiting_response == 0,
          "a message has not ended");
      expect(peer.tx.una == peer.tx.next, "packets stay in flight forever");
      expect(peer.rx.responses == 0, "a response was never sent");
    }
  }
}

void SrdSwarm::check_counters() {
  uint64_t sums[transport::kCountEnd] = {};
  for (const auto& station : net_.stations)
    for (size_t c = 0; c < transport::kCountEnd; ++c)
      sums[c] += station->total(static_cast<Count>(c));
  const auto sum = [&sums](Count c) { return sums[static_cast<size_t>(c)]; };
  expect(sum(Count::rx_naks) <= sum(Count::tx_naks) + sum(Count::tx_rnr_naks),
         "more refusals were received than sent");
  expect(sum(Count::rx_resets) <= sum(Count::tx_resets), "more resets were received than sent");
  expect(sum(Count::tx_retransmits) <= sum(Count::tx_packets), "more was retransmitted than sent");
  const middleware::FaultOptions& faults = config_.options.faults;
  if (faults.corrupt == 0 && faults.truncate == 0)
    expect(sum(Count::rx_icrc_error) == 0 && sum(Count::rx_too_short) == 0,
           "an undamaged packet was dropped as damaged");
  expect(sum(Count::peers_lost) == 0, "a living peer counted as dead");
  expect(sum(Count::cq_overruns) == 0 && sum(Count::rx_bad_response) == 0, "a wrong answer");
}

void SrdSwarm::check_memory() {
  for (uint32_t i = 0; i < apps_.size(); ++i) {
    const SrdStation& station = *net_.stations[i];
    std::string invalid_reason = apps_[i].added.invalid_reason(station.word(kWord));
    for (uint32_t w = 0; w < kAddWords && invalid_reason.empty(); ++w)
      invalid_reason = apps_[i].sums[w].invalid_reason(station.word(kAdded + 8 * w));
    if (!invalid_reason.empty()) throw Violation(invalid_reason);
    const std::vector<std::byte> margin(kMargin, std::byte{0xEE});
    for (size_t at = source(1); at <= config_.options.memory; at += kSlot)
      expect(std::memcmp(station.at(at - kMargin), margin.data(), kMargin) == 0,
             "memory was written that no request named");
  }
}

std::string SrdSwarm::describe() const {
  std::string state;
  for (uint32_t i = 0; i < apps_.size(); ++i)
    for (const Request& q : apps_[i].live)
      if (q.pending)
        state += "\n  " + std::to_string(i) + " to " + std::to_string(q.to) + ": opcode " +
                 std::to_string(static_cast<int>(q.opcode)) + ", " + std::to_string(q.length) +
                 " bytes";
  return state;
}

SrdSwarmResult SrdSwarm::result() {
  SrdSwarmResult r;
  r.disturbances = net_.disturbances;
  r.packets = net_.network.packets();
  r.hash = net_.network.hash().value();
  r.end = net_.network.now();
  r.traffic = traffic_;
  for (const auto& station : net_.stations) {
    for (size_t i = 0; i < middleware::kFaultEnd; ++i)
      r.faults[i] += (*station->life().fault)[static_cast<middleware::Fault>(i)];
    for (size_t i = 0; i < transport::kCountEnd; ++i)
      r.counters[i] += station->total(static_cast<Count>(i));
  }
  return r;
}

SrdSwarmResult run_srd_swarm(uint64_t seed, bool hashed) {
  SrdSwarm swarm(seed, hashed);
  std::string violation;
  try {
    swarm.run();
  } catch (const Violation& v) {
    violation = v.what();
  }
  SrdSwarmResult result = swarm.result();
  result.violation = violation;
  return result;
}

}  // namespace weft::test
