// SPDX-License-Identifier: BSD-3-Clause
// How fast the simulator is: data packets delivered end to end per second of processor time, beside
// ns-3 on the same dumbbell in the same run (where libns3-dev is installed), and on permutations
// over fat trees, with light hosts and with hosts that run the engine. The gate is a factor of ten
// over ns-3; without ns-3 nothing is gated.
#include <sys/resource.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "bench/perftest/command_line.hpp"
#include "bench/sim_speed/dumbbell.hpp"
#include "lib/sim/run/simulation.hpp"
#include "lib/sim/scenario/networks.hpp"
#include "lib/sim/scenario/workload.hpp"

namespace weft::bench {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

namespace {

using sim::fabric::Topology;
using sim::scenario::FlowList;

Speed run_ours(const Topology& topology, const char* controller, const FlowList& flows,
               const sim::flow::Parameters& parameters = {}) {
  const Result<sim::flow::Scheme> scheme = sim::flow::make_scheme(controller, parameters, topology);
  const double begin = processor_seconds();
  const Result<sim::flow::RunResult> result =
      sim::flow::run(topology, *scheme, flows, {.sample_ns = 0});
  return {result->data_delivered, result->events, processor_seconds() - begin};
}

Speed run_dumbbell(const Dumbbell& d) {
  const Topology topology = *sim::scenario::make_dumbbell({.hosts = d.pairs,
                                                           .mbps = d.host_mbps,
                                                           .fabric_mbps = d.middle_mbps,
                                                           .delay_ns = d.delay_ns});
  FlowList flows;
  for (uint32_t i = 0; i < d.pairs; ++i)
    flows.push_back({.start_ns = 10 * i,
                     .src = i,
                     .dst = i + d.pairs,
                     .bytes = d.packets_per_pair * d.payload});
  return run_ours(topology, "none", flows);
}

double rate(const Speed& s) { return s.seconds > 0 ? double(s.delivered) / s.seconds : 0; }

void print(const char* name, const Speed& s) {
  std::printf("%-44s %9.0f packets/s  %9.2f M packets  %9.2f M events  %6.1f ns per event\n", name,
              rate(s), double(s.delivered) / 1e6, double(s.events) / 1e6,
              s.seconds * 1e9 / double(std::max<uint64_t>(s.events, 1)));
  std::fflush(stdout);
}

void print_permutation(uint32_t k, uint64_t bytes, const char* controller) {
  const Topology topology = *sim::scenario::make_fat_tree({.k = k});
  base::Random random(1);
  const FlowList flows = sim::scenario::permutation(topology, bytes, 0, random);
  const std::string name =
      "weft permutation, " + std::to_string(topology.hosts().size()) + " hosts, " + controller;
  sim::flow::Parameters parameters;
  (void)parameters.set("net.payload", "1024");
  const Speed light = run_ours(topology, controller, flows, parameters);
  print(name.c_str(), light);
  (void)parameters.set("host.fidelity", "engine");
  const Speed engine = run_ours(topology, controller, flows, parameters);
  print("  the same, hosts run the engine", engine);
  std::printf("  engine / flow: %.2f\n", rate(engine) / rate(light));
}

// The best of some runs, ours and ns-3's in turns: both see the same machine.
int compare(uint64_t packets, int rounds) {
  Dumbbell dumbbell;
  Speed ours;
  Speed theirs;
  for (int round = 0; round < rounds; ++round) {
    dumbbell.packets_per_pair = packets;
    const Speed one = run_dumbbell(dumbbell);
    if (rate(one) > rate(ours)) ours = one;
#if WEFT_HAVE_NS3
    dumbbell.packets_per_pair = std::max<uint64_t>(packets / 10, 1);
    const Speed other = run_ns3(dumbbell);
    if (rate(other) > rate(theirs)) theirs = other;
#endif
  }
  print("weft dumbbell, 3 hops, reply per packet", ours);
  if (theirs.delivered == 0) {
    std::printf("no ns-3 to compare with: apt-get install libns3-dev, and configure again\n");
    return 0;
  }
  print("ns-3 dumbbell, the same (Debian's libraries)", theirs);
  const double ratio = rate(ours) / rate(theirs);
  std::printf("weft / ns-3: %.1f, the gate is 10: %s\n", ratio, ratio >= 10 ? "passed" : "FAILED");
  return ratio >= 10 ? 0 : 1;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  using namespace weft::bench;
  uint64_t packets = 200'000;
  int rounds = 3;
  bool quick = false;
  CLI::App app("sim_speed: the simulator's speed, beside ns-3.");
  app.option_defaults()->always_capture_default();
  app.add_option("--packets", packets, "Per pair of the dumbbell; ns-3 gets a tenth")
      ->check(CLI::Range(100, 100'000'000));
  app.add_option("--rounds", rounds, "Runs of each, the best counts")->check(CLI::Range(1, 100));
  app.add_flag("--quick", quick, "Only the dumbbell");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  const int status = compare(packets, rounds);
  if (!quick)
    for (const char* const controller : {"none", "dcqcn-hpccsim+win", "hpcc"}) {
      print_permutation(8, 10'000'000, controller);
      print_permutation(16, 2'000'000, controller);
    }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("most memory: %ld MiB\n", usage.ru_maxrss / 1024);
  return status;
}
