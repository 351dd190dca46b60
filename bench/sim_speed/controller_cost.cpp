// SPDX-License-Identifier: BSD-3-Clause
// What an acknowledgement costs each congestion controller: a flow at 100 Gb/s whose path (five
// hops of telemetry, a digest, marks, an RTT that wanders) is busy and changes from packet to
// packet. Time is that of the fastest of some rounds; instructions, for one controller:
//
//   valgrind --tool=callgrind --toggle-collect='*replay*' controller_cost hpcc 20000
//
// divided by the number of acknowledgements that it prints.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/random.hpp"
#include "lib/congestion/digest.hpp"
#include "lib/congestion/registry.hpp"

namespace {

using namespace weft;
using namespace weft::congestion;

constexpr uint32_t kAcks = 4096;  // then the same again, later
constexpr int kRounds = 25;

struct Event {
  Ack ack;
  std::array<IntHop, kMaxHops> hops;
};

std::vector<Event> events() {
  base::Random random(20261122);
  std::vector<Event> all(kAcks);
  for (uint32_t i = 0; i < kAcks; ++i) {
    Ack& ack = all[i].ack;
    const auto wander = static_cast<uint32_t>(random.below(20'000));
    for (IntHop& hop : all[i].hops)
      hop = {400'000, (i + 1) * 80, (i + 1) * 3800 + wander / 16,
             static_cast<uint32_t>(random.below(4000))};
    all[i].hops[2] = {100'000, (i + 1) * 80, (i + 1) * 980, wander};
    ack.now = Instant{} + Duration::from_ns((i + 1) * 80);
    ack.rtt = Duration::from_ns(12'000 + wander / 12);
    ack.acked = uint64_t{i + 1} * 1000;
    ack.sent = ack.acked + 150'000;
    ack.in_flight = 150'000;
    ack.newly_acked = ack.packet_bytes = 1000;
    ack.marked = wander > 18'000;
    ack.digest = encode_digest(0.9 + wander / 100'000.0, 0.5);
    ack.hops = all[i].hops;
  }
  return all;
}

// Tells `controller` all of them, of a time `later` than before.
[[gnu::noinline]] void replay(Controller& controller, const Preset& preset, std::vector<Event>& all,
                              Duration later, uint64_t bytes) {
  for (Event& event : all) {
    Ack ack = event.ack;
    ack.now = ack.now + later;
    ack.acked += bytes;
    ack.sent += bytes;
    controller.on_ack(preset, ack);
  }
}

void measure(const Kind& kind, uint32_t acks) {
  const Result<Preset> preset = make_preset(
      kind.name, {.line = Rate::from_gbps(100), .rtt = Duration::from_us(12), .network = {}});
  if (!preset) return;
  std::vector<Event> all = events();
  Controller controller;
  controller.start(*preset);
  const base::Clock& clock = base::Clock::process();
  double best = 1e30;
  uint32_t told = 0;
  for (int round = 0; round < kRounds || told < acks; ++round, told += kAcks) {
    if (acks != 0 && told >= acks) break;
    const Instant begin = clock.now();
    replay(controller, *preset, all, Duration::from_ns(int64_t{told} * 80), uint64_t{told} * 1000);
    best = std::min(best, static_cast<double>((clock.now() - begin).ps) / 1000 / kAcks);
  }
  std::printf("%-16s %7.1f ns an acknowledgement (%u of them, at %.1f Gb/s in the end)\n",
              std::string(kind.name).c_str(), best, told, controller.rate() / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  std::string only;
  uint32_t acks = 0;
  CLI::App app("controller_cost: time that each congestion controller takes for an ACK.");
  app.option_defaults()->always_capture_default();
  app.add_option("controller", only, "Measure this one (default: all)");
  app.add_option("acks", acks, "How many ACKs; 0: several rounds, of which the fastest counts");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  for (const Kind* kind : kinds())
    if (only.empty() || kind->name == only) measure(*kind, acks);
  return 0;
}
