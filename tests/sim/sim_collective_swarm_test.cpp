// SPDX-License-Identifier: BSD-3-Clause
// The swarm of collectives: one seed is a group of ranks on a simulated network that loses,
// repeats, reorders, damages and delays frames, cuts paths for a while, and whose ranks die. What
// runs is the library itself in virtual time: teams, links, the engines of roce and srd, over ports
// of the simulator. Random calls are compared with plain arithmetic; where a rank has died, every
// survivor is told which one. Nobody may be left waiting. WEFT_TEST_SEED=N replays one seed,
// WEFT_TEST_SEEDS=M with it that many from there.
#include <cstdio>

#include "lib/base/virtual_process.hpp"
#include "lib/collective/arguments.hpp"
#include "providers/port/middleware/fault_port.hpp"
#include "providers/port/sim/sim_port.hpp"
#include "providers/roce/roce_context.hpp"
#include "providers/software/open.hpp"
#include "providers/srd/srd_context.hpp"
#include "tests/support/scale.hpp"
#include "tests/unit/collective_random.hpp"

namespace weft::test {
namespace {

using collective::Link;
using collective::Mesh;
using collective::Team;
using middleware::FaultOptions;

constexpr Duration kBusyPause = Duration::from_ns(500), kIdlePause = Duration::from_us(5);
constexpr Duration kPatience = Duration::from_ms(40);
// RC tries again at equal times: cuts at equal times could meet all of its tries, so they end.
constexpr Duration kCutsEnd = Duration::from_ms(30);
constexpr Duration kLimit = Duration::from_s(10);  // who is not done by then hangs

// ---- time, and devices in it
// ---------------------------------------------------------------------

Instant virtual_now;
uint64_t looks = 0;  // at the clock since it was set

// A program that looks again and again waits for time to pass.
Instant look_at_clock() {
  constexpr uint64_t kManyLooks = 10'000;
  if (++looks > kManyLooks) virtual_now = virtual_now + Duration::from_us(1);
  return virtual_now;
}

void set_clock(Instant now) {
  virtual_now = now;
  looks = 0;
}

std::unique_ptr<engine::Port> next_port;  // of the device that is opened next

Result<std::shared_ptr<verbs::Context>> open_simulated(const verbs::DeviceSpec& spec) {
  software::OpenedPort opened;
  opened.ports.push_back(std::move(next_port));
  opened.name = "sim";
  const driver::DriverOptions alone{.single_thread = true};
  if (spec.provider == "roce") {
    engine::EngineConfig config;
    config.throttle = true;
    config.start = virtual_now;
    const DeviceAttributes attributes = software::describe(spec, opened, config.limits);
    return std::shared_ptr<verbs::Context>(
        new roce::RoceContext(std::move(opened.ports), config, alone, attributes));
  }
  engine::srd::Config config;
  config.start = virtual_now;
  config.patience = kPatience;
  DeviceAttributes attributes = software::describe(spec, opened, config.limits);
  attributes.qp_type = QpType::srd;
  attributes.has_write_add = attributes.has_ordered = true;
  return std::shared_ptr<verbs::Context>(
      new srd::SrdContext(std::move(opened.ports), config, alone, attributes));
}

void list_none(std::vector<DeviceListing>&) {}

// ---- what a seed is
// ------------------------------------------------------------------------------

struct Config {
  std::string provider;
  uint32_t ranks = 2;
  sim::LinkOptions cable;
  FaultOptions faults;
  collective::LinkShape shape;
  std::vector<RandomCall> calls;
  int64_t victim = -1;
  Instant dies;
};

FaultOptions draw_faults(base::Random& r) {
  const auto rate = [&](uint32_t most) { return r.below(2) == 0 ? uint32_t(r.below(most)) : 0; };
  FaultOptions f;
  f.seed = r.next();
  f.loss = rate(20'000);
  f.dup = rate(50'000);
  f.reorder = rate(50'000);
  f.reorder_time = Duration::from_us(1 + static_cast<int64_t>(r.below(60)));
  f.corrupt = rate(10'000);
  f.truncate = rate(5'000);
  f.ack_loss = rate(30'000);
  f.jitter = Duration::from_us(static_cast<int64_t>(r.below(20)));
  if (r.below(4) != 0) return f;
  f.blackhole = middleware::FaultDirection::both;  // the path is cut, and mended
  f.flap_down = Duration::from_us(100 + static_cast<int64_t>(r.below(2000)));
  f.flap_up = f.flap_down * 3 + Duration::from_us(static_cast<int64_t>(r.below(4000)));
  return f;
}

std::string describe(const FaultOptions& f) {
  return "loss " + std::to_string(f.loss) + " dup " + std::to_string(f.dup) + " reorder " +
         std::to_string(f.reorder) + " corrupt " + std::to_string(f.corrupt) + " truncate " +
         std::to_string(f.truncate) + " ack_loss " + std::to_string(f.ack_loss) + " cut for " +
         std::to_string(f.flap_down.us()) + " us of " +
         std::to_string((f.flap_up + f.flap_down).us());
}

Config draw(uint64_t seed) {
  base::Random r(seed);
  Config c;
  c.provider = r.below(2) == 0 ? "roce" : "srd";
  c.ranks = 2 + static_cast<uint32_t>(r.below(5));
  c.cable.rate = Rate::from_gbps(10 + static_cast<double>(r.below(90)));
  c.cable.delay = Duration::from_ns(200 + static_cast<int64_t>(r.below(5000)));
  if (r.below(4) != 0) c.faults = draw_faults(r);
  c.shape.slots = 2 + static_cast<uint32_t>(r.below(15));
  c.shape.payload = 64 * (2 + static_cast<uint32_t>(r.below(r.below(2) == 0 ? 4 : 512)));
  const uint64_t calls = 1 + r.below(4);
  while (c.calls.size() < calls) {
    RandomCall call = random_call(r, c.ranks);
    call.discovered = false;
    if (call.count * c.ranks * size_of(call.type) <= (1U << 20)) c.calls.push_back(call);
  }
  if (r.below(3) != 0) return c;
  c.victim = static_cast<int64_t>(r.below(c.ranks));
  c.dies = Instant{} + Duration::from_us(static_cast<int64_t>(r.below(1000)));
  return c;
}

// ---- ranks
// ---------------------------------------------------------------------------------------

class Rank final : public sim::EventHandler {
 public:
  Rank(sim::Network& network, const Config& config, uint32_t rank)
      : network_(network), config_(config), rank_(rank), host_(network.add_host(address(rank))) {
    host_.notify(this, kArrival);
  }

  static Gid address(uint32_t rank) { return sim::host_address(rank); }
  sim::Host& host() { return host_; }
  Mesh& mesh() { return *mesh_; }

  std::string open() {
    std::unique_ptr<engine::Port> port = std::make_unique<port::SimPort>(host_);
    FaultOptions faults = config_.faults;
    faults.seed += rank_;
    auto faulty = std::make_unique<middleware::FaultPort>(std::move(port), faults, look_at_clock);
    fault_port_ = faulty.get();
    next_port = std::move(faulty);
    Result<Device> device = Device::open(config_.provider + "+udp");  // the port is ours
    if (!device) return device.error().message;
    Result<CompletionQueue> cq = device->completion_queue({.capacity = 4096});
    Result<ProtectionDomain> pd = device->protection_domain();
    if (!cq || !pd) return "no completion queue, or no domain";
    mesh_.reset(new Mesh{*device, *cq, *pd, rank_, config_.ranks, {}, {}, {}});
    mesh_->lanes.assign(1, std::vector<Link*>(config_.ranks));
    return "";
  }

  void begin(sim::EventQueue& events) {
    CommunicatorOptions options{.patience = kPatience};
    options.slots = config_.shape.slots;
    options.slot_bytes = config_.shape.payload;
    team_ = std::make_shared<Team>(std::move(*mesh_), options);
    for (const RandomCall& call : config_.calls) {
      Buffers& b = *buffers_.emplace_back(std::make_unique<Buffers>(call, config_.ranks, rank_));
      Result<collective::TaskPtr> task =
          collective::make_task(*team_,
                                {call.collective, b.input, b.output, call.count, call.type, call.op,
                                 call.root, call.blocks},
                                {.algorithm = call.algorithm});
      if (!task) {
        refused_ = task.error().message;
        return;
      }
      team_->issue(*task);
      tasks_.push_back(*task);
    }
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
    if (now > Instant{} + kCutsEnd) mend();
    const uint64_t before = team_->steps_done();
    team_->progress();
    const bool busy = team_->steps_done() != before || !host_.received().empty();
    wake(network_.events(), now + (busy ? kBusyPause : kIdlePause));
  }

  bool is_over() const {
    return dead_ || std::all_of(tasks_.begin(), tasks_.end(),
                                [](const collective::TaskPtr& task) { return task->done; });
  }

  // What is wrong with how it ended.
  std::string objection() const {
    if (!refused_.empty()) return refused_;
    if (dead_) return "";
    const std::string victim = "rank " + std::to_string(config_.victim) + " failed";
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const collective::Task& task = *tasks_[i];
      if (!task.done) return "left waiting in " + config_.calls[i].describe();
      if (!task.error) {
        if (std::string wrong = buffers_[i]->check(); !wrong.empty()) return wrong;
      } else if (config_.victim < 0 || task.error->code != Code::peer_failed ||
                 !contains(task.error->message, victim)) {
        return config_.calls[i].describe() + ": " + task.error->message;
      }
    }
    return "";
  }
  uint64_t failed() const {
    return static_cast<uint64_t>(std::count_if(
        tasks_.begin(), tasks_.end(), [](const collective::TaskPtr& t) { return t->error; }));
  }

 private:
  static constexpr uint64_t kArrival = 0;

  void mend() {
    FaultOptions faults = config_.faults;
    faults.blackhole = middleware::FaultDirection::none;
    fault_port_->change(faults);
  }

  void wake(sim::EventQueue& events, Instant at) {
    if (at >= wakes_) return;
    wakes_ = at;
    events.schedule(at, *this, ++ticket_);
  }

  sim::Network& network_;
  const Config& config_;
  const uint32_t rank_;
  sim::Host& host_;
  middleware::FaultPort* fault_port_ = nullptr;  // of the device, which the team keeps
  std::unique_ptr<Mesh> mesh_;
  std::shared_ptr<Team> team_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
  std::vector<collective::TaskPtr> tasks_;
  std::string refused_;
  Instant wakes_ = Instant::never();
  uint64_t ticket_ = 0;
  bool dead_ = false;
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
  uint64_t packets = 0, failed = 0;
  Instant end;
};

Outcome run(uint64_t seed) {
  const Config config = draw(seed);
  sim::Network network;
  network.hash_arrivals(false);
  std::vector<std::unique_ptr<Rank>> ranks;
  Outcome outcome;
  set_clock(network.now());
  base::draw_secure_numbers_from(seed);
  for (uint32_t r = 0; r < config.ranks; ++r) {
    ranks.push_back(std::make_unique<Rank>(network, config, r));
    outcome.violation += ranks.back()->open();
  }
  for (uint32_t a = 0; a < config.ranks; ++a)
    for (uint32_t b = a + 1; b < config.ranks; ++b) {
      network.connect(ranks[a]->host(), ranks[b]->host(), config.cable);
      outcome.violation += connect(*ranks[a], *ranks[b], config.shape);
    }
  if (!outcome.violation.empty()) return outcome;
  for (const auto& rank : ranks) rank->begin(network.events());
  const auto over = [&] {
    return std::all_of(ranks.begin(), ranks.end(), [](const auto& r) { return r->is_over(); });
  };
  while (!over() && network.now() < Instant{} + kLimit && network.events().step()) {
  }
  outcome.end = network.now();
  outcome.packets = network.packets();
  for (uint32_t r = 0; r < config.ranks; ++r) {
    outcome.failed += ranks[r]->failed();
    if (const std::string wrong = ranks[r]->objection(); !wrong.empty())
      outcome.violation += "rank " + std::to_string(r) + " of " + std::to_string(config.ranks) +
                           " over " + config.provider + ": " + wrong + "\n";
  }
  if (!outcome.violation.empty()) {
    outcome.violation += describe(config.faults) + ", slots " + std::to_string(config.shape.slots) +
                         " of " + std::to_string(config.shape.payload) + ", dies " +
                         std::to_string(config.victim) + " at " +
                         std::to_string((config.dies - Instant{}).us()) + " us\n";
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
  uint64_t packets = 0, failed = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Outcome outcome = run(seed);
    packets += outcome.packets;
    failed += outcome.failed;
    INFO("replay: WEFT_TEST_SEED=" << seed << " sim_collective_swarm_test");
    CHECK(outcome.violation == "");
  }
  std::printf("%llu seeds, %llu packets, %llu calls failed as a rank had died\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(packets),
              static_cast<unsigned long long>(failed));
  if (one == nullptr) CHECK(failed > 0);
}

TEST_CASE("a seed of collectives repeats itself") {
  for (const uint64_t seed : {2, 3, 4, 5, 6, 7}) {
    const Outcome once = run(seed), again = run(seed);
    INFO("seed " << seed);
    CHECK(once.packets == again.packets);
    CHECK(once.end == again.end);
    CHECK(once.failed == again.failed);
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
