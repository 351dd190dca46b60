// SPDX-License-Identifier: BSD-3-Clause
// The simulator inside a program of your own: a network, flows, a controller, a run, its figures.
// lib/sim is used from the source tree; it is no part of the installed libweft. lib/sim/README.md
// names the pieces. Deterministic: the same program prints the same numbers anywhere.
// link: sim
#include <algorithm>
#include <cstdio>

#include "lib/sim/run/simulation.hpp"
#include "lib/sim/scenario/networks.hpp"
#include "tortoise.hpp"

using namespace weft::sim;

static weft::Result<flow::RunResult> incast(const char* controller) {
  // Sixteen hosts at one switch send 500 KB to host 0; links of 100 Gb/s and 1 us.
  const auto network = scenario::make_star({.hosts = 17, .mbps = 100'000, .delay_ns = 1000});
  if (!network) return network.error();
  std::vector<flow::FlowSpec> flows;
  for (uint32_t host = 1; host < 17; ++host)
    flows.push_back({.start_ns = 0, .src = host, .dst = 0, .bytes = 500'000});

  flow::Parameters parameters;  // `weft_sim keys` lists them
  if (auto set = parameters.set("switch.buffer_mb", "32"); !set) return set.error();
  const auto scheme = flow::make_scheme(controller, parameters, *network);
  if (!scheme) return scheme.error();
  return flow::run(*network, *scheme, flows, {.seed = 1, .until_ns = 10'000'000});
}

int main() {
  // A controller of your own goes by its name like the built-in ones.
  if (const auto added = weft::add_controller(kTortoise); !added) {
    std::fprintf(stderr, "%s\n", added.error().message.c_str());
    return 1;
  }
  for (const char* controller : {"hpcc", "dcqcn-hpccsim", "timely", "tortoise"}) {
    const auto result = incast(controller);
    if (!result) {
      std::fprintf(stderr, "%s\n", result.error().message.c_str());
      return 1;
    }
    int64_t last = 0;
    for (const flow::FlowResult& flow : result->flows) last = std::max(last, flow.fct_ns);
    std::printf("%-14s last of 16 flows after %.1f us, longest queue %llu KB, %llu PFC pauses\n",
                controller, static_cast<double>(last) / 1e3,
                static_cast<unsigned long long>(result->queues.most_kb()),
                static_cast<unsigned long long>(result->counters.pauses));
  }
  return steps == 0;  // the simulator called the tortoise
}
