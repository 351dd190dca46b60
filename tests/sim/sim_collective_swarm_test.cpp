// SPDX-License-Identifier: BSD-3-Clause
// The swarm of collectives: one seed is a group of ranks on a simulated network that loses,
// repeats, reorders, damages and delays frames, cuts paths for a while and a rail for good, whose
// ranks die, and take calls back. What runs is the library itself in virtual time: teams, links,
// the engines of roce and srd, over ports of the simulator. Random calls, dispatch and combine
// among them, are compared with plain arithmetic; a call that was taken back is done, or canceled
// by the rank that did so, and those after it are right; where a rank has died, every survivor is
// told which one, and the survivors go on as a group of their own over the same devices, as after
// shrink(). Nobody may be left waiting. WEFT_TEST_SEED=N replays one seed,
// WEFT_TEST_SEEDS=M with it that many from there.
#include <cstdio>

#include "lib/base/virtual_process.hpp"
#include "providers/port/middleware/rails_port.hpp"
#include "providers/port/sim/sim_port.hpp"
#include "tests/sim/collective_swarm_config.hpp"
#include "tests/sim/collective_swarm_device.hpp"
#include "tests/sim/collective_swarm_work.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

using collective::Link;
using collective::Mesh;
using collective::Team;
using middleware::FaultOptions;

constexpr Duration kBusyPause = Duration::from_ns(500), kIdlePause = Duration::from_us(5);
// RC tries again at equal times: cuts at equal times could meet all of its tries, so they end.
constexpr Duration kCutsEnd = Duration::from_ms(30);
constexpr Duration kLimit = Duration::from_s(10);  // who is not done by then hangs

// ---- ranks
// ---------------------------------------------------------------------------------------

class Rank final : public sim::EventHandler {
 public:
  Rank(sim::Network& network, const SwarmConfig& config, uint32_t rank)
      : network_(network), config_(config), rank_(rank) {
    for (uint32_t rail = 0; rail < config.rails; ++rail) {
      hosts_.push_back(&network.add_host(sim::host_address(rail * kMostRanks + rank)));
      hosts_.back()->notify(this, kArrival);
    }
  }

  sim::Host& host(uint32_t rail = 0) { return *hosts_[rail]; }
  Mesh& mesh() { return *mesh_; }
  bool dead() const { return dead_; }

  std::string open() {
    std::vector<std::unique_ptr<engine::Port>> rails;
    for (sim::Host* const host : hosts_) {
      FaultOptions faults = config_.faults;
      faults.seed += rank_ + kMostRanks * rails.size();
      auto faulty = std::make_unique<middleware::FaultPort>(std::make_unique<port::SimPort>(*host),
                                                            faults, look_at_clock);
      fault_ports_.push_back(faulty.get());
      rails.push_back(std::move(faulty));
    }
    if (rails.size() == 1)
      next_port = std::move(rails[0]);
    else
      next_port = std::move(*middleware::RailsPort::bundle(std::move(rails)));
    Result<Device> device = Device::open(config_.provider + "+udp");  // the port is ours
    if (!device) return device.error().message;
    device_ = std::make_unique<Device>(*device);
    return prepare(rank_, config_.ranks);
  }

  // For links to a group of so many.
  std::string prepare(uint32_t rank, uint32_t ranks) {
    Result<CompletionQueue> cq = device_->completion_queue({.capacity = 4096});
    Result<ProtectionDomain> pd = device_->protection_domain();
    if (!cq || !pd) return "no completion queue, or no domain";
    mesh_.reset(new Mesh{*device_, *cq, *pd, rank, ranks, {}, {}, {}});
    mesh_->lanes.resize(1);
    mesh_->lanes[0].resize(ranks);
    return "";
  }

  void begin(sim::EventQueue& events) {
    static const std::optional<Layer> kNone;
    CommunicatorOptions options{.patience = kPatience};
    options.slots = config_.shape.slots;
    options.slot_bytes = config_.shape.payload;
    const bool first = team_ == nullptr;
    if (!first) {
      team_before_ = std::move(team_);
      work_before_ = std::move(work_);
    }
    team_ = std::make_shared<Team>(std::move(*mesh_), options);
    work_ = std::make_unique<SwarmWork>(first ? config_.calls : config_.calls_without,
                                        first ? config_.layer : kNone);
    refused_ += work_->issue(*team_);
    wake(events, events.now());
  }

  void on_event(Instant now, uint64_t argument) override {
    if (dead_ || team_ == nullptr) return;
    if (argument == kArrival) return wake(network_.events(), now + kBusyPause / 5);
    if (argument != ticket_) return;
    wakes_ = Instant::never();
    if (config_.victim == rank_ && now >= config_.dies) {
      dead_ = true;
      return;
    }
    set_clock(now);
    change_faults(now);
    cancel(now);
    const uint64_t before = team_->steps_done();
    team_->progress();
    refused_ += work_->go_on(*team_);
    const bool busy = team_->steps_done() != before || !host().received().empty();
    wake(network_.events(), now + (busy ? kBusyPause : kIdlePause));
  }

  bool is_over() const { return dead_ || !refused_.empty() || work_->is_over(); }
  bool has_failed() const { return team_->failure().has_value(); }

  // What is wrong with how it ended.
  std::string objection() const {
    if (!refused_.empty()) return refused_;
    if (dead_) return "";
    const bool second = work_before_ != nullptr;
    const std::string wrong =
        (second ? *work_before_ : *work_).objection([&](int64_t call, const Error& error) {
          return may_fail(call, error);
        });
    if (!wrong.empty() || !second) return wrong;
    const std::string later = work_->objection([](int64_t, const Error&) { return false; });
    return later.empty() ? "" : "without rank " + std::to_string(config_.victim) + ": " + later;
  }
  const SwarmWork& work() const { return work_before_ != nullptr ? *work_before_ : *work_; }
  bool went_on() const { return work_before_ != nullptr; }

 private:
  static constexpr uint64_t kArrival = 0;
  static constexpr uint32_t kMostRanks = 16;

  bool may_fail(int64_t call, const Error& error) const {
    if (error.code == Code::peer_failed)
      return config_.victim >= 0 &&
             contains(error.message, "rank " + std::to_string(config_.victim) + " failed");
    return error.code == Code::canceled && call == config_.canceled && call >= 0 &&
           contains(error.message,
                    "canceled by rank " + std::to_string(config_.canceler) + ": late");
  }

  void cancel(Instant now) {
    if (canceled_ || config_.canceled < 0 || config_.canceler != rank_ || now < config_.cancels)
      return;
    canceled_ = true;
    if (Result<void> done = team_->cancel(work_->task(config_.canceled), "late"); !done)
      refused_ += done.error().message;
  }

  // Cuts are mended; a rail that dies stays dead.
  void change_faults(Instant now) {
    for (size_t rail = 0; rail < fault_ports_.size(); ++rail) {
      FaultOptions faults = config_.faults;
      const bool dies = rail > 0 && now >= config_.rail_dies;
      if (!dies && now <= Instant{} + kCutsEnd) continue;
      faults.blackhole = dies ? middleware::FaultDirection::both : middleware::FaultDirection::none;
      if (dies) faults.flap_up = faults.flap_down = {};
      fault_ports_[rail]->change(faults);
    }
  }

  void wake(sim::EventQueue& events, Instant at) {
    if (at >= wakes_) return;
    wakes_ = at;
    events.schedule(at, *this, ++ticket_);
  }

  sim::Network& network_;
  const SwarmConfig& config_;
  const uint32_t rank_;
  std::vector<sim::Host*> hosts_;                    // by rail
  std::vector<middleware::FaultPort*> fault_ports_;  // of the device
  std::unique_ptr<Device> device_;
  std::unique_ptr<Mesh> mesh_;
  std::shared_ptr<Team> team_, team_before_;
  std::unique_ptr<SwarmWork> work_, work_before_;
  std::string refused_;
  Instant wakes_ = Instant::never();
  uint64_t ticket_ = 0;
  bool dead_ = false, canceled_ = false;
};

// ---- a run
// ---------------------------------------------------------------------------------------

std::string walk(const Link& link, const Gid& peer, QpNum number) {
  const Result<void> rtr = link.qp().modify({.state = QpState::rtr,
                                             .access = collective::kPeerAccess,
                                             .path = AddressVector{.destination = peer},
                                             .path_mtu = uint32_t{1024},
                                             .dest_qpn = number,
                                             .rq_psn = Psn{0},
                                             .max_dest_rd_atomic = uint8_t{16},
                                             .min_rnr_timer = uint8_t{1}});
  if (!rtr) return rtr.error().message;
  QueuePairAttributes rts{.state = QpState::rts, .sq_psn = Psn{0}};
  if (link.qp().type() == QpType::rc) {
    rts.max_rd_atomic = uint8_t{16};
    rts.timeout = uint8_t{12};  // 17 ms
    rts.retry_count = rts.rnr_retry = uint8_t{7};
  }
  const Result<void> ready = link.qp().modify(rts);
  return ready ? "" : ready.error().message;
}

std::string connect(Rank& a, Rank& b, const collective::LinkShape& shape) {
  const auto make = [&](Mesh& mesh, uint32_t peer) {
    const QpType type = mesh.device.attributes().qp_type;
    auto link = Link::create(mesh.pd, mesh.cq, type, shape, uint32_t(mesh.links.size()));
    REQUIRE(link);
    mesh.lanes[0][peer] = link->get();
    mesh.links.push_back(std::move(*link));
    return mesh.lanes[0][peer];
  };
  Link* const there = make(a.mesh(), b.mesh().rank);
  Link* const back = make(b.mesh(), a.mesh().rank);
  there->set_peer(b.mesh().rank, back->address());
  back->set_peer(a.mesh().rank, there->address());
  const std::string wrong = walk(*there, b.host().address(), back->qp().number());
  return wrong.empty() ? walk(*back, a.host().address(), there->qp().number()) : wrong;
}

struct Outcome {
  std::string violation;
  uint64_t packets = 0, failed = 0, canceled = 0, combined = 0, went_on = 0;
  Instant end;
};

using Ranks = std::vector<Rank*>;

// Until all are over, or one hangs.
void run_until_over(sim::Network& network, const Ranks& ranks) {
  const Instant limit = network.now() + kLimit;
  const auto over = [&] {
    return std::all_of(ranks.begin(), ranks.end(), [](Rank* r) { return r->is_over(); });
  };
  while (!over() && network.now() < limit && network.events().step()) {
  }
}

std::string connect_all(const Ranks& ranks, const collective::LinkShape& shape) {
  std::string wrong;
  for (size_t a = 0; a < ranks.size(); ++a)
    for (size_t b = a + 1; b < ranks.size(); ++b) wrong += connect(*ranks[a], *ranks[b], shape);
  return wrong;
}

// The survivors as a group of their own, over the devices that they have.
std::string go_on_without(sim::Network& network, const Ranks& all,
                          const collective::LinkShape& shape) {
  Ranks alive;
  for (Rank* const rank : all)
    if (!rank->dead()) alive.push_back(rank);
  set_clock(network.now());
  std::string wrong;
  for (size_t i = 0; i < alive.size(); ++i)
    wrong += alive[i]->prepare(static_cast<uint32_t>(i), static_cast<uint32_t>(alive.size()));
  wrong += connect_all(alive, shape);
  if (!wrong.empty()) return wrong;
  for (Rank* const rank : alive) rank->begin(network.events());
  run_until_over(network, alive);
  return "";
}

Outcome run(uint64_t seed) {
  const SwarmConfig config = draw(seed);
  sim::Network network;
  network.hash_arrivals(false);
  std::vector<std::unique_ptr<Rank>> owned;
  Ranks ranks;
  Outcome outcome;
  set_clock(network.now());
  base::draw_secure_numbers_from(seed);
  for (uint32_t r = 0; r < config.ranks; ++r) {
    ranks.push_back(owned.emplace_back(std::make_unique<Rank>(network, config, r)).get());
    outcome.violation += ranks.back()->open();
  }
  for (uint32_t a = 0; a < config.ranks; ++a)
    for (uint32_t b = a + 1; b < config.ranks; ++b)
      for (uint32_t rail = 0; rail < config.rails; ++rail)
        network.connect(ranks[a]->host(rail), ranks[b]->host(rail), config.cable);
  outcome.violation += connect_all(ranks, config.shape);
  if (!outcome.violation.empty()) return outcome;
  for (Rank* const rank : ranks) rank->begin(network.events());
  run_until_over(network, ranks);
  const bool all_know = std::all_of(ranks.begin(), ranks.end(), [](const Rank* rank) {
    return rank->dead() || (rank->is_over() && rank->has_failed());
  });
  if (config.victim >= 0 && all_know)
    outcome.violation += go_on_without(network, ranks, config.shape);
  outcome.end = network.now();
  outcome.packets = network.packets();
  for (uint32_t r = 0; r < config.ranks; ++r) {
    const SwarmWork& work = ranks[r]->work();
    outcome.failed += work.ended_with(Code::peer_failed);
    outcome.canceled += work.ended_with(Code::canceled);
    outcome.combined += work.has_combined();
    outcome.went_on += ranks[r]->went_on();
    if (const std::string wrong = ranks[r]->objection(); !wrong.empty())
      outcome.violation += "rank " + std::to_string(r) + " of " + std::to_string(config.ranks) +
                           " over " + config.provider + ": " + wrong + "\n";
  }
  if (!outcome.violation.empty()) {
    outcome.violation +=
        describe(config.faults) + ", slots " + std::to_string(config.shape.slots) + " of " +
        std::to_string(config.shape.payload) + ", dies " + std::to_string(config.victim) + " at " +
        std::to_string((config.dies - Instant{}).us()) + " us, rails " +
        std::to_string(config.rails) + ", call " + std::to_string(config.canceled) +
        " canceled by " + std::to_string(config.canceler) + " at " +
        std::to_string((config.cancels - Instant{}).us()) + " us\n";
  }
  return outcome;
}

TEST_CASE("collectives under faults are right, or name the rank that died") {
  const char* const one = std::getenv("WEFT_TEST_SEED");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 0) : 1;
  const char* const many = std::getenv("WEFT_TEST_SEEDS");
  const uint64_t seeds = many != nullptr  ? std::strtoull(many, nullptr, 0)
                         : one != nullptr ? 1
                                          : scaled(300);
  Outcome all;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Outcome outcome = run(seed);
    all.packets += outcome.packets;
    all.failed += outcome.failed;
    all.canceled += outcome.canceled;
    all.combined += outcome.combined;
    all.went_on += outcome.went_on;
    INFO("replay: WEFT_TEST_SEED=" << seed << " sim_collective_swarm_test");
    CHECK(outcome.violation == "");
  }
  std::printf(
      "%lu seeds, %lu packets; calls of ranks: %lu failed as a rank had died, %lu canceled, %lu "
      "combined; %lu ranks went on without a dead one\n",
      static_cast<unsigned long>(seeds), static_cast<unsigned long>(all.packets),
      static_cast<unsigned long>(all.failed), static_cast<unsigned long>(all.canceled),
      static_cast<unsigned long>(all.combined), static_cast<unsigned long>(all.went_on));
  if (one != nullptr) return;
  CHECK(all.failed > 0);
  CHECK(all.canceled > 0);
  CHECK(all.combined > 0);
  CHECK(all.went_on > 0);
}

TEST_CASE("a seed of collectives repeats itself") {
  for (const uint64_t seed : {2, 3, 4, 5, 6, 7}) {
    const Outcome once = run(seed), again = run(seed);
    INFO("seed " << seed);
    CHECK(once.packets == again.packets);
    CHECK(once.end == again.end);
    CHECK(once.failed == again.failed);
    CHECK(once.canceled == again.canceled);
  }
}

}  // namespace
}  // namespace weft::test

namespace weft::verbs {

// In place of those of the build: their devices are on the simulated network.
std::span<const Provider> providers() {
  static const bool in_virtual_time = base::live_in_virtual_time(test::look_at_clock);
  static const Provider kSimulated[] = {{"roce", &test::open_simulated, &test::list_none},
                                        {"srd", &test::open_simulated, &test::list_none}};
  return in_virtual_time ? std::span<const Provider>(kSimulated) : std::span<const Provider>();
}

}  // namespace weft::verbs
