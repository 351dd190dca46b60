// SPDX-License-Identifier: BSD-3-Clause
// Random traffic between random SRD stations over networks that lose, repeat, reorder and damage:
// every request completes once and well, every message arrives once and whole, atomics and adds
// happen once, and when the faults end all work drains. Each seed also draws policy and paths.
//   replay: WEFT_TEST_SEED=n sim_srd_swarm_test
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "lib/congestion/registry.hpp"
#include "tests/sim/pair.hpp"
#include "tests/sim/srd_world.hpp"
#include "tests/sim/swarm_atomics.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::test;
using engine::Count;

namespace {

constexpr uint32_t kSlot = 40'000;  // bytes of one request, or one receive
constexpr uint32_t kDepth = 8;      // requests outstanding per station
constexpr uint32_t kReceives = 3;
constexpr size_t kWords = 0;                         // shared words: one for FetchAdd, 64 for adds
constexpr size_t kSource = 4096;                     // kDepth slots to send from and READ into
constexpr size_t kInbox = kSource + kDepth * kSlot;  // receives
constexpr size_t kWritten = kInbox + kReceives * kSlot;  // per writer kDepth slots
constexpr uint32_t kMostStations = 4;
constexpr size_t kMemory = kWritten + kMostStations * kDepth * kSlot;

struct Swarm {
  explicit Swarm(uint64_t s) : seed(s), random(s), world(draw(s)) {
    for (uint32_t i = 0; i < world.stations.size(); ++i) {
      free.emplace_back();
      for (uint32_t d = 0; d < kDepth; ++d) free.back().push_back(d);
      live.emplace_back(kDepth);
      for (uint64_t r = 0; r < kReceives; ++r) expect(i, r);
      world[i].life().after_turn = [this, i] { step(i); };
      added.emplace_back();
      sums.emplace_back(64);
      seen.emplace_back();
      withheld.emplace_back();
    }
  }

  static SrdOptions draw(uint64_t seed) {
    base::Random r(seed * 77 + 5);
    SrdOptions o;
    o.seed = seed;
    o.stations = 2 + static_cast<uint32_t>(r.below(3));
    o.memory = kMemory;
    o.config.paths = uint32_t{1} << r.below(7);
    o.config.policy = static_cast<engine::srd::PathChoice>(r.below(6));
    constexpr const char* kControllers[] = {"none",      "halved", "nscc",     "rccc",
                                            "nscc+rccc", "swift",  "dcqcn-nic"};
    const uint64_t controller = r.below(7);
    o.config.halves = controller == 1;
    if (controller >= 2)
      o.config.congestion = *congestion::make_preset(
          kControllers[controller],
          {.line = Rate::from_gbps(100), .rtt = Duration::from_us(10), .network = {}});
    o.config.patience = Duration::from_s(60);
    o.capabilities.active_mtu = o.capabilities.max_mtu = 256u << r.below(5);
    if (r.below(3) == 0) o.capabilities.train_frames = 16, o.capabilities.train_bytes = 60'000;
    const auto some = [&r](uint32_t most) {
      return r.below(2) == 0 ? 0 : static_cast<uint32_t>(r.below(most));
    };
    o.faults.loss = some(100'000);
    o.faults.burst = some(3'000);
    o.faults.dup = some(50'000);
    o.faults.reorder = some(100'000);
    o.faults.corrupt = some(20'000);
    o.faults.truncate = some(5'000);
    o.faults.jitter = r.below(3) == 0 ? Duration::from_us(20) : Duration{};
    o.faults.reorder_time = Duration::from_us(1 + static_cast<int64_t>(r.below(200)));
    return o;
  }

  struct Request {
    Opcode opcode{};
    uint32_t to = 0, length = 0;
    uint64_t pattern = 0, addend = 0;
    bool pending = false;
  };

  void expect(uint32_t i, uint64_t slot) {
    std::memset(world[i].at(kInbox + slot * kSlot), 0xEE, 64);
    REQUIRE(world[i].recv(slot, world[i].sge(kInbox + slot * kSlot, kSlot)));
  }

  // The application of station i: looks at what has completed, posts more.
  void step(uint32_t i) {
    for (const Completion& c : world[i].sent()) on_sent(i, c);
    for (const Completion& c : world[i].received()) on_received(i, c);
    // A slow application: senders often find no receive.
    while (!withheld[i].empty() && (draining || random.below(16) == 0)) {
      expect(i, withheld[i].back());
      withheld[i].pop_back();
    }
    while (posted < limit && !free[i].empty() && random.below(4) != 0) post(i);
  }

  void post(uint32_t i) {
    const uint32_t slot = free[i].back();
    free[i].pop_back();
    Request& q = live[i][slot];
    q = {};
    q.pending = true;
    q.to = static_cast<uint32_t>(random.below(world.stations.size()));
    q.pattern = random.next() | 1;
    constexpr Opcode kOps[] = {Opcode::send,          Opcode::send_with_imm, Opcode::write,
                               Opcode::read,          Opcode::fetch_add,     Opcode::write_add,
                               Opcode::write_with_imm};
    q.opcode = kOps[random.below(7)];
    const uint32_t most = random.below(3) == 0 ? kSlot : 300;
    q.length = 16 + static_cast<uint32_t>(random.below(most - 16));
    SrdStation& me = world[i];
    SrdStation& to = world[q.to];
    const size_t at = kSource + slot * kSlot;
    const size_t there = kWritten + (i * kDepth + slot) * kSlot;
    SendRequest r;
    r.id = slot;
    r.opcode = q.opcode;
    r.rkey = RKey{to.key()};
    r.remote_address = to.address_of(there);
    r.imm = static_cast<uint32_t>(q.pattern);
    fill(me.at(at), q.length, q.pattern);
    if (q.opcode == Opcode::send || q.opcode == Opcode::send_with_imm) {
      me.word(at) = q.pattern;  // tells the receiver what to expect
      if (random.below(2) == 0) r.flags = SendFlags::signaled | SendFlags::ordered;
    } else if (q.opcode == Opcode::read) {
      fill(to.at(there), q.length, q.pattern);  // ours alone
    } else if (q.opcode == Opcode::fetch_add) {
      q.addend = AddedWord::addend(random);
      q.length = 8;
      r.compare_add = q.addend;
      r.remote_address = to.address_of(kWords);
    } else if (q.opcode == Opcode::write_add) {
      r.element = Element::int64;
      r.remote_address = to.address_of(kWords + 64);
      q.length = 64 * 8;
      for (uint32_t w = 0; w < 64; ++w) {
        me.word(at + 8 * w) = q.pattern * (w + 1);
        sums[q.to][w] += q.pattern * (w + 1);
      }
    }
    const Sge sge = me.sge(at, q.length);
    r.sges = {&sge, 1};
    REQUIRE(me.post(to, r));
    ++posted;
  }

  void on_sent(uint32_t i, const Completion& c) {
    INFO("seed " << seed << " opcode " << static_cast<int>(live[i][c.id].opcode));
    Request& q = live[i][c.id];
    REQUIRE(c.status == Status::success);
    REQUIRE(q.pending);
    q.pending = false;
    ++completed;
    const size_t at = kSource + c.id * kSlot;
    const size_t there = kWritten + (i * kDepth + c.id) * kSlot;
    const bool writes = q.opcode == Opcode::write || q.opcode == Opcode::write_with_imm;
    if (writes || q.opcode == Opcode::read)
      REQUIRE(std::memcmp(world[i].at(at), world[q.to].at(there), q.length) == 0);
    if (q.opcode == Opcode::fetch_add) added[q.to].succeeded(q.addend, world[i].word(at));
    free[i].push_back(static_cast<uint32_t>(c.id));
  }

  void on_received(uint32_t i, const Completion& c) {
    INFO("seed " << seed);
    REQUIRE(c.status == Status::success);
    ++arrived;
    if (!has(c.flags, CompletionFlags::rdma_write)) {
      const std::byte* const at = world[i].at(kInbox + c.id * kSlot);
      uint64_t pattern;
      std::memcpy(&pattern, at, 8);
      REQUIRE(seen[i].insert(pattern).second);  // once
      std::vector<std::byte> wanted(c.byte_count);
      fill(wanted.data(), wanted.size(), pattern);
      REQUIRE(std::memcmp(at + 8, wanted.data() + 8, c.byte_count - 8) == 0);
      if (has(c.flags, CompletionFlags::with_imm))
        REQUIRE(c.imm_or_key == static_cast<uint32_t>(pattern));
    }
    withheld[i].push_back(c.id);
  }

  void run(uint64_t requests) {
    limit = requests;
    for (uint32_t i = 0; i < world.stations.size(); ++i) world[i].life().kick();
    world.run_until([&] { return posted >= limit; }, Duration::from_s(20));
    for (auto& station : world.stations) station->life().fault->change({});
    limit = posted;
    draining = true;
    INFO("seed " << seed << ": " << completed << " of " << posted);
    REQUIRE(world.run_until([&] { return completed == posted; }, Duration::from_s(30)));
    for (uint32_t i = 0; i < world.stations.size(); ++i) {
      CHECK(added[i].objection(world[i].word(kWords)).empty());
      for (uint32_t w = 0; w < 64; ++w) REQUIRE(world[i].word(kWords + 64 + 8 * w) == sums[i][w]);
    }
  }

  uint64_t seed;
  base::Random random;
  SrdWorld world;
  std::vector<std::vector<uint32_t>> free;
  std::vector<std::vector<Request>> live;
  std::vector<AddedWord> added;
  std::vector<std::vector<uint64_t>> sums;
  std::vector<std::set<uint64_t>> seen;
  std::vector<std::vector<uint64_t>> withheld;  // receives to be posted again
  bool draining = false;                        // the end: applications are quick now
  uint64_t limit = 0, posted = 0, completed = 0, arrived = 0;
};

}  // namespace

TEST_CASE("SRD swarm: once, whole, and nothing hangs, threat:A10 threat:A22") {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  const char* const scale = std::getenv("WEFT_TEST_SCALE");
  const double share = scale != nullptr ? std::atof(scale) : 1;
  const uint64_t seeds =
      text != nullptr ? 1 : std::max<uint64_t>(4, static_cast<uint64_t>(60 * share));
  const uint64_t first = text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device{}();
  std::printf("replay: WEFT_TEST_SEED=%llu sim_srd_swarm_test\n",
              static_cast<unsigned long long>(first));
  uint64_t packets = 0, retransmits = 0, rests = 0;
  for (uint64_t seed = first; seed != first + seeds; ++seed) {
    Swarm swarm(seed);
    swarm.run(600);
    packets += swarm.world.network.packets();
    for (auto& s : swarm.world.stations) {
      retransmits += s->count(Count::tx_retransmits);
      rests += s->count(Count::rx_rnr_naks);
    }
  }
  std::printf("%llu packets, %llu sent again, %llu found no receive\n",
              static_cast<unsigned long long>(packets),
              static_cast<unsigned long long>(retransmits), static_cast<unsigned long long>(rests));
  CHECK(retransmits > 0);
  CHECK(rests > 0);
}
