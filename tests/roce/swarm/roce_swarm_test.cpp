// SPDX-License-Identifier: BSD-3-Clause
// The swarm as a test: 4 x 10^7 packets under faults per run (a part of it where WEFT_TEST_SCALE
// says so), in parts that ctest may run side by side. The program sim_swarm runs any other range
// of seeds.
#include <cstdio>

#include "tests/roce/swarm/swarm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

void run_part(uint64_t first_seed) {
  const auto wanted = scaled(10'050'000);
  uint64_t packets = 0, seed = first_seed, broken = 0;
  SwarmResult sums;
  for (; packets < wanted; ++seed) {
    const SwarmResult r = run_swarm(seed, false);
    packets += r.packets;
    broken += r.traffic.failures;
    for (size_t i = 0; i < r.faults.size(); ++i) sums.faults[i] += r.faults[i];
    for (size_t i = 0; i < kLinkFaultEnd; ++i) sums.link_faults[i] += r.link_faults[i];
    INFO("replay: sim_swarm --first " << seed << " --seeds 1 --verbose");
    INFO(r.violation);
    CHECK(r.violation.empty());
  }
  std::printf("%llu packets, seeds %llu..%llu, %llu requests failed as they may\n",
              static_cast<unsigned long long>(packets), static_cast<unsigned long long>(first_seed),
              static_cast<unsigned long long>(seed - 1), static_cast<unsigned long long>(broken));
  if (test_scale() >= 1) CHECK(not_fired(sums) == "");
}

TEST_CASE("swarm under faults, part 1") { run_part(1); }
TEST_CASE("swarm under faults, part 2") { run_part(100'001); }
TEST_CASE("swarm under faults, part 3") { run_part(200'001); }
TEST_CASE("swarm under faults, part 4") { run_part(300'001); }

TEST_CASE("a run without one of its kinds of faults names it") {
  SwarmResult sums;
  sums.faults.fill(1);
  sums.link_faults.fill(1);
  CHECK(not_fired(sums) == "");
  sums.link_faults[static_cast<size_t>(LinkFault::mtu_shrink)] = 0;
  CHECK(not_fired(sums) == "mtu_shrink");
  sums.faults[static_cast<size_t>(middleware::Fault::pad)] = 0;
  CHECK(not_fired(sums) == "fault_pad, mtu_shrink");
  sums.faults[static_cast<size_t>(middleware::Fault::overflow)] = 0;  // no fault
  CHECK(not_fired(sums) == "fault_pad, mtu_shrink");
}

TEST_CASE("a seed gives the same events each time") {
  for (const uint64_t seed : {7, 8, 9}) {
    const SwarmResult once = run_swarm(seed), again = run_swarm(seed);
    CHECK(once.packets == again.packets);
    CHECK(once.hash == again.hash);
    CHECK(once.hash != run_swarm(seed + 100).hash);
  }
}

// The model of atomic histories must see what is wrong with one.
TEST_CASE("the history of FetchAdds detects a duplicate and a lost one") {
  AddedWord word;
  base::Random random(1);
  const uint64_t a = AddedWord::addend(random), b = AddedWord::addend(random),
                 c = AddedWord::addend(random);
  word.succeeded(b, a);
  word.succeeded(a, 0);
  word.unknown(c);
  CHECK(word.invalid_reason(a + b).empty());
  CHECK(word.invalid_reason(a + b + c).empty());
  CHECK_FALSE(word.invalid_reason(a + b + c + c).empty());
  CHECK_FALSE(word.invalid_reason(a + b + a).empty());
  CHECK_FALSE(word.invalid_reason(a).empty());
  AddedWord gap;
  gap.succeeded(b, a);
  CHECK_FALSE(gap.invalid_reason(a + b).empty());
  gap.unknown(a);
  CHECK(gap.invalid_reason(a + b).empty());
}

TEST_CASE("the history of CmpSwaps is one chain") {
  SwappedWord word;
  word.succeeded(0, 1, 0);
  word.succeeded(1, 2, 1);
  word.succeeded(0, 3, 2);  // compared too late
  CHECK(word.invalid_reason(2).empty());
  CHECK_FALSE(word.invalid_reason(1).empty());
  CHECK_FALSE(word.invalid_reason(9).empty());
  word.unknown(2, 4);
  CHECK(word.invalid_reason(4).empty());
  CHECK(word.invalid_reason(2).empty());
  word.succeeded(1, 5, 1);  // a second one from the same value
  CHECK_FALSE(word.invalid_reason(2).empty());
}

}  // namespace
}  // namespace weft::test
