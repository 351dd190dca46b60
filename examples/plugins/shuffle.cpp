// SPDX-License-Identifier: BSD-3-Clause
// A workload of your own for the simulator: each host sends to a few others, each begins at random.
//
//   [[flows]]
//   kind = "./shuffle.so"
//   bytes = 1e6
//   fan_out = 2
//
//   c++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared shuffle.cpp -o shuffle.so
#include <weft/simulation.hpp>

namespace sim = weft::simulation;

static void generate(sim::Keys& keys, const sim::Hosts& hosts, sim::Random& random,
                     sim::Flows& flows) {
  const double bytes = keys.number("bytes", 1e6);
  const double fan_out = keys.number("fan_out", 2);
  const double spread_ns = keys.number("spread_ns", 10'000);
  if (bytes < 1 || spread_ns < 0) return keys.fail("bytes", "must be 1 or more, spread_ns 0");
  if (fan_out >= static_cast<double>(hosts.count)) return keys.fail("fan_out", "has no such hosts");
  for (size_t host = 0; host < hosts.count; ++host)
    for (size_t i = 1; static_cast<double>(i) <= fan_out; ++i)
      flows.add({.start_ns = static_cast<int64_t>(random.share() * spread_ns),
                 .source = hosts.numbers[host],
                 .destination = hosts.numbers[(host + i) % hosts.count],
                 .bytes = static_cast<uint64_t>(bytes)});
}

WEFT_WORKLOAD((sim::Workload{.generate = generate}));
