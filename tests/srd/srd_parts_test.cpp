// SPDX-License-Identifier: BSD-3-Clause
// The parts of the SRD engine that are values by themselves: the receiver's bitmap against a plain
// set, the table of half-arrived messages against a map, and what each path policy does.
#include <array>
#include <map>
#include <set>

#include "lib/base/random.hpp"
#include "lib/srd/state/assembly.hpp"
#include "lib/srd/state/path_set.hpp"
#include "lib/srd/state/rails.hpp"
#include "lib/srd/state/receive_window.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::srd;

TEST_CASE("the receive window agrees with a set, threat:A10 threat:A26") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    base::Random random(seed);
    ReceiveWindow window;
    std::set<uint64_t> have;
    uint64_t next = 0;
    for (int step = 0; step < 5000; ++step) {
      const uint64_t reach = random.below(3) == 0 ? 2000 : 20;
      const uint64_t back = std::min<uint64_t>(next, random.below(10));
      const uint64_t s = next - back + random.below(reach);
      const auto place = window.place_of(s);
      const bool old = s < next || have.count(s) != 0;
      const bool far = s >= next + kWindow;
      REQUIRE(place == (old   ? ReceiveWindow::Place::duplicate
                        : far ? ReceiveWindow::Place::beyond
                              : ReceiveWindow::Place::fresh));
      if (place != ReceiveWindow::Place::fresh) continue;
      window.accept(s);
      have.insert(s);
      while (have.count(next) != 0) have.erase(next++);
      REQUIRE(window.next() == next);
      const uint64_t span = have.empty() ? 0 : *have.rbegin() + 1 - next;
      REQUIRE(window.words() == (span + 63) / 64);
      for (uint32_t w = 0; w < window.words(); ++w)
        for (uint32_t i = 0; i < 64; ++i)
          REQUIRE(((window.word(w) >> i) & 1) == have.count(next + 64 * w + i));
    }
  }
}

TEST_CASE("the assembly table agrees with a map") {
  base::Random random(3);
  AssemblyTable table;
  std::map<uint64_t, uint32_t> have;
  for (uint32_t step = 0; step < 200'000; ++step) {
    const uint64_t name = AssemblyTable::name_of(static_cast<uint32_t>(random.below(3)),
                                                 static_cast<uint32_t>(random.below(300)));
    Assembly* const found = table.find(name);
    REQUIRE((found != nullptr) == (have.count(name) != 0));
    if (found == nullptr) {
      table.insert(name)->length = step;
      have[name] = step;
    } else {
      REQUIRE(found->length == have[name]);
      table.remove(found);
      have.erase(name);
    }
    REQUIRE(table.size() == have.size());
    if (step % 5000 != 0) continue;
    const uint64_t peer = random.below(3) + 1;
    table.drain([&](const Assembly& a) { return a.name >> 32 == peer; },
                [&](Assembly& a) {
                  have.erase(a.name);
                  table.remove(&a);
                });
    for (const auto& [n, length] : have) REQUIRE((n >> 32 != peer && table.find(n) != nullptr));
    REQUIRE(table.size() == have.size());
  }
}

namespace {
std::map<uint8_t, int> shares(PathSet& paths, int count) {
  std::map<uint8_t, int> result;
  for (int i = 0; i < count; ++i) ++result[paths.choose(Instant{})];
  return result;
}
}  // namespace

TEST_CASE("single keeps one path, oblivious takes every path equally often") {
  PathSet paths;
  paths.start(PathChoice::single, 16, 64, 5);
  CHECK(shares(paths, 100).size() == 1);
  paths.start(PathChoice::oblivious, 16, 64, 5);
  for (const auto& [path, count] : shares(paths, 1600)) CHECK(count == 100);
}

TEST_CASE("bitmap passes over a path with a penalty until that wears off") {
  PathSet paths;
  paths.start(PathChoice::bitmap, 8, 64, 5);
  paths.on_timeout(3, Instant{});
  paths[3].lost = 0;  // the penalty alone
  CHECK(shares(paths, 8 * 8).count(3) == 0);
  (void)shares(paths, 8 * 8 * 15);
  CHECK(shares(paths, 8 * 8)[3] > 0);
}

TEST_CASE("reps reuses paths without marks, each once") {
  PathSet paths;
  paths.start(PathChoice::reps, 64, 64, 5);
  for (uint8_t path : {9, 11, 13}) paths.on_ack(path, false, Instant{});
  paths.on_ack(15, true, Instant{});  // marked: not again
  CHECK(paths.choose(Instant{}) == 9);
  CHECK(paths.choose(Instant{}) == 11);
  CHECK(paths.choose(Instant{}) == 13);
  CHECK(shares(paths, 1000).size() > 50);
}

TEST_CASE("a dead path is suspended, probed at growing intervals, and resumes") {
  for (const PathChoice policy : {PathChoice::oblivious, PathChoice::bitmap, PathChoice::reps}) {
    PathSet paths;
    paths.start(policy, 8, 64, 5);
    CHECK(paths.take_probe(Instant{}) == PathSet::kNone);
    paths.on_loss(2, Instant{});
    CHECK(paths.dead() == 0);  // one loss is chance
    paths.on_timeout(2, Instant{});
    CHECK(paths.dead() == 1);
    int used = 0, probes = 0;
    for (int us = 0; us < 1'000'000; us += 100) {
      const Instant now = Instant{} + Duration::from_us(us);
      used += paths.choose(now) == 2;
      const uint32_t probe = paths.take_probe(now);
      probes += probe == 2;
      CHECK((probe == 2 || probe == PathSet::kNone));
    }
    CHECK(used == 0);
    CHECK(probes == 10);  // 1, 2, 4 ... 512 ms
    paths.on_arrival(2, 1);
    CHECK(paths.dead() == 0);
    CHECK(shares(paths, 1000)[2] > 0);
  }
}

TEST_CASE("a path twice as slow as the fastest is suspended until it is not") {
  PathSet paths;
  paths.start(PathChoice::oblivious, 8, 64, 5);
  for (uint8_t round = 0; round < 32; ++round)
    for (uint8_t path = 0; path < 8; ++path)
      paths.on_rtt(path, Duration::from_us(path == 6 ? 100 : 10 + path), Instant{});
  CHECK(paths.slow() == 1);
  CHECK(shares(paths, 800).count(6) == 0);
  CHECK(paths.take_probe(Instant{} + Duration::from_ms(5)) == 6);
  for (int i = 0; i < 64; ++i) paths.on_rtt(6, Duration::from_us(12), Instant{});
  CHECK(paths.slow() == 0);
  CHECK(shares(paths, 800)[6] > 90);
}

TEST_CASE("a path that stays slow is probed at growing intervals, at any clock value") {
  PathSet paths;
  paths.start(PathChoice::oblivious, 8, 64, 5);
  const Instant begin = Instant{} + Duration::from_s(40 * 60);  // half a turn of its microseconds
  for (uint8_t round = 0; round < 32; ++round)
    for (uint8_t path = 0; path < 8; ++path)
      paths.on_rtt(path, Duration::from_us(path == 6 ? 100 : 10 + path), begin);
  int probes = 0;
  for (int us = 0; us < 1'000'000; us += 100) {
    const Instant now = begin + Duration::from_us(us);
    if (paths.take_probe(now) != 6) continue;
    paths.on_arrival(6, static_cast<uint16_t>(++probes));
    paths.on_rtt(6, Duration::from_us(100), now);
  }
  CHECK(probes == 10);  // 1, 2, 4 ... 512 ms
}

TEST_CASE("of many slow paths one is probed per millisecond or per 64 packets, round-robin") {
  PathSet paths;
  paths.start(PathChoice::oblivious, 128, 64, 5);
  for (int round = 0; round < 2; ++round)
    for (uint8_t path = 0; path < 128; ++path)
      paths.on_rtt(path, Duration::from_us(path == 0 ? 10 : 100), Instant{});
  REQUIRE(paths.slow() == 127);
  std::set<uint32_t> tried;
  for (int us = 1000; us < 128'000; us += 100)
    if (const uint32_t path = paths.take_probe(Instant{} + Duration::from_us(us));
        path != PathSet::kNone)
      CHECK(tried.insert(path).second);
  CHECK(tried.size() == 127);
  const Instant later = Instant{} + Duration::from_ms(200);
  CHECK(paths.take_probe(later) != PathSet::kNone);
  for (int packet = 0; packet < 63; ++packet) (void)paths.take_sequence(0);
  CHECK(paths.take_probe(later) == PathSet::kNone);
  (void)paths.take_sequence(0);
  CHECK(paths.take_probe(later) != PathSet::kNone);
  CHECK(paths.take_probe(later) == PathSet::kNone);
  for (uint8_t path = 1; path < 128; ++path) paths.on_timeout(path, later);
  for (int dead = 0; dead < 3; ++dead)
    CHECK(paths.take_probe(later + Duration::from_s(2)) != PathSet::kNone);
}

TEST_CASE("reports show the state of each path") {
  PathSet paths;
  paths.start(PathChoice::oblivious, 3, 64, 5);
  (void)paths.take_sequence(0);
  CHECK(paths.report(0).sent == 0);  // not counted by default
  paths.count_packets(true);
  for (uint8_t path = 0; path < 3; ++path) CHECK(paths.report(path).health == PathHealth::good);
  for (int round = 0; round < 32; ++round) {
    for (uint8_t path = 0; path < 3; ++path) {
      (void)paths.take_sequence(path);
      paths.on_ack(path, path == 1 && round < 5, Instant{});
      paths.on_rtt(path, Duration::from_us(path == 1 ? 100 : 10), Instant{});
    }
  }
  CHECK(paths.report(0).health == PathHealth::good);
  CHECK(paths.report(0).rtt == Duration::from_us(10));
  CHECK(paths.report(1).health == PathHealth::slow);
  CHECK(paths.report(1).sent == 32);
  CHECK(paths.report(1).marked == 5);
  CHECK(paths.report(1).lost == 0);
  paths.on_loss(2, Instant{});
  CHECK(paths.report(2).health == PathHealth::good);  // once is chance
  paths.on_loss(2, Instant{});
  CHECK(paths.report(2).health == PathHealth::dead);
  paths.on_timeout(2, Instant{});
  CHECK(paths.report(2).lost == 3);
  while (paths.take_probe(Instant{} + Duration::from_ms(5)) != 2) {
  }
  CHECK(paths.report(2).health == PathHealth::probing);
  paths.on_arrival(2, 40);
  CHECK(paths.report(2).health == PathHealth::good);
  CHECK(paths.report(2).rtt == Duration{});  // of another time
}

TEST_CASE("with all paths suspended the policy chooses as if none were") {
  PathSet paths;
  paths.start(PathChoice::oblivious, 4, 64, 5);
  for (uint8_t path = 0; path < 4; ++path) paths.on_timeout(path, Instant{});
  CHECK(shares(paths, 400).size() == 4);
}

TEST_CASE("a lost packet is retransmitted on another path, if there is one") {
  for (const PathChoice policy : {PathChoice::oblivious, PathChoice::bitmap, PathChoice::reps}) {
    PathSet paths;
    paths.start(policy, 4, 64, 9);
    for (int i = 0; i < 1000; ++i) CHECK(paths.choose_other(1, Instant{}) != 1);
    paths.start(policy, 1, 64, 9);
    CHECK(paths.choose_other(0, Instant{}) == 0);
  }
}

TEST_CASE("a route that joins before others leaves them candidates") {
  Rails rails;
  const Gid further[] = {Gid::from_ipv4(10, 0, 1, 1)};
  rails.set_addresses(further);
  rails.plan(2, Instant{});
  REQUIRE(rails.candidates().size() == 3);
  const Route last = rails.candidates()[2].route;
  REQUIRE(rails.join(last));
  CHECK(rails.joined() == 2);
  CHECK(rails.route(0) == Route{0, 0});
  CHECK(rails.route(1) == last);
  CHECK_FALSE(rails.join(last));
  std::set<std::pair<int, int>> left;
  for (const Rails::Candidate& c : rails.candidates()) left.emplace(c.route.local, c.route.remote);
  CHECK(left.size() == 2);
  CHECK(left.count({last.local, last.remote}) == 0);
  rails.plan(2, Instant{});  // what has joined stays
  CHECK(rails.route(1) == last);
  CHECK(rails.candidates().size() == 2);
}
