// SPDX-License-Identifier: BSD-3-Clause
// The SRD swarm as a test: 4 x 10^7 packets per run (a part of it where WEFT_TEST_SCALE says so),
// in parts that ctest may run side by side. `sim_swarm --srd` runs any other range of seeds.
#include "tests/srd/swarm/srd_swarm.hpp"

#include <cstdio>

#include "tests/support/catch.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

using transport::Count;

void run_part(uint64_t first_seed) {
  const auto wanted = scaled(10'000'000);
  SrdSwarmResult sums;
  uint64_t seed = first_seed;
  for (; sums.packets < wanted; ++seed) {
    const SrdSwarmResult r = run_srd_swarm(seed, false);
    sums.packets += r.packets;
    sums.traffic.failures += r.traffic.failures;
    for (size_t i = 0; i < r.counters.size(); ++i) sums.counters[i] += r.counters[i];
    for (size_t i = 0; i < r.faults.size(); ++i) sums.faults[i] += r.faults[i];
    for (size_t i = 0; i < r.disturbances.size(); ++i) sums.disturbances[i] += r.disturbances[i];
    INFO("replay: sim_swarm --srd --first " << seed << " --seeds 1 --verbose");
    INFO(r.violation);
    CHECK(r.violation.empty());
  }
  const auto sum = [&sums](Count c) { return sums.counters[static_cast<size_t>(c)]; };
  std::printf(
      "%llu packets, seeds %llu..%llu, %llu retransmitted, %llu requests failed as allowed\n",
      static_cast<unsigned long long>(sums.packets), static_cast<unsigned long long>(first_seed),
      static_cast<unsigned long long>(seed - 1),
      static_cast<unsigned long long>(sum(Count::tx_retransmits)),
      static_cast<unsigned long long>(sums.traffic.failures));
  CHECK(sum(Count::tx_retransmits) > 0);
  if (test_scale() < 1) return;
  CHECK(not_fired(sums) == "");
  // Everything that it is there for has happened.
  for (const Count c :
       {Count::rx_rnr_naks, Count::rx_resets, Count::tx_aborts, Count::tx_fills,
        Count::streams_replaced, Count::rx_stale_stream, Count::rx_other_incarnation,
        Count::rx_duplicates, Count::path_probes, Count::ways_joined}) {
    INFO(transport::kCountNames[static_cast<size_t>(c)]);
    CHECK(sum(c) > 0);
  }
}

TEST_CASE("SRD swarm, part 1, threat:A10 threat:A22") { run_part(1); }
TEST_CASE("SRD swarm, part 2, threat:A10 threat:A22") { run_part(100'001); }
TEST_CASE("SRD swarm, part 3, threat:A10 threat:A22") { run_part(200'001); }
TEST_CASE("SRD swarm, part 4, threat:A10 threat:A22") { run_part(300'001); }

TEST_CASE("a seed of the SRD swarm repeats itself, event by event") {
  for (const uint64_t seed : {7, 8, 9}) {
    const SwarmResult once = run_srd_swarm(seed), again = run_srd_swarm(seed);
    CHECK(once.packets == again.packets);
    CHECK(once.hash == again.hash);
    CHECK(once.hash != run_srd_swarm(seed + 100).hash);
  }
}

}  // namespace
}  // namespace weft::test
