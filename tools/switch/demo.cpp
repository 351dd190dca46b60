// SPDX-License-Identifier: BSD-3-Clause
// Runs alternate between the controllers, so that a busy minute of the machine hits all of them;
// what is compared is the median. Parameters are those of each controller's source, scaled from the
// network they are for to this one: times by the round trip, rates by the link.
#include "tools/switch/demo.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "lib/congestion/registry.hpp"
#include "tools/switch/dumbbell.hpp"

namespace weft::bench {
namespace {

// The network that the defaults are for (the papers'): dcqcn-paper's, and that of the rest.
struct Reference {
  double mbps, rtt_us;
};
Reference reference_of(std::string_view controller) {
  return controller.starts_with("dcqcn-paper") ? Reference{40'000, 50} : Reference{100'000, 12};
}

// A bit above the unloaded round trip: four cables, a frame's time on each of two, two looks.
double rtt_us(const DemoOptions& o) {
  constexpr double kHeaders = 200;  // with telemetry
  return 4 * o.delay_us + 2 * 8 * (o.mtu + kHeaders) / o.mbps + 100;
}

struct Keys {
  std::string senders, receiver;
};

Result<Keys> keys_of(const std::string& controller, const DemoOptions& o) {
  bool windowed = false;
  const Result<const congestion::Kind*> kind = congestion::find_kind(controller, &windowed);
  if (!kind) return kind.error();
  const Reference from = reference_of(controller);
  const double rtt = rtt_us(o), time = rtt / from.rtt_us, rate = o.mbps / from.mbps;
  double cnp_interval = rtt;
  Keys keys;
  keys.senders = "cc=" + controller + ",cc_line_mbps=" + std::to_string(o.mbps) +
                 ",cc_rtt_us=" + std::to_string(static_cast<uint32_t>(rtt)) +
                 ",pacing_quantum_us=" + std::to_string(static_cast<uint32_t>(rtt / 20));
  for (const congestion::Parameter& p : (*kind)->parameters) {
    double value = p.value;
    if (p.name.ends_with("_us")) value *= time;
    if (p.name.ends_with("_mbps")) value *= rate;
    if (p.name == "byte_reset") value *= time * rate;
    if (p.name == "cnp_interval_us") cnp_interval = value;
    char text[64];
    std::snprintf(text, sizeof text, ",cc.%.*s=%.6g", static_cast<int>(p.name.size()),
                  p.name.data(), value);
    if (value != p.value) keys.senders += text;
  }
  for (const std::string& key : o.keys) keys.senders += "," + key;
  keys.receiver =
      "telemetry=1,cnp_interval_us=" + std::to_string(static_cast<uint32_t>(cnp_interval));
  return keys;
}

// ECN as with dcqcn-paper: 5 KB, 200 KB and 1 % at 40 Gb/s and 50 us, in round trips. (The HPCC
// paper's 2.5 and 10 round trips exceed the bytes in flight that the engine allows two flows.)
Shape shape_of(const DemoOptions& o) {
  Shape shape;
  shape.hosts = o.hosts;
  shape.mbps = o.mbps;
  shape.delay_us = o.delay_us;
  shape.buffer_kb = 8 * 1024;
  shape.kmin_us = o.kmin_rtts * rtt_us(o);
  shape.kmax_us = o.kmax_rtts * rtt_us(o);
  shape.pmax = o.pmax;
  shape.digest_rtt_us = rtt_us(o);
  return shape;
}

void show(const std::string& controller, uint32_t run, const Moment& moment) {
  if (::isatty(STDOUT_FILENO) == 0) return;
  constexpr size_t kWidth = 30;
  const double kb = moment.queue / 1024.0;
  const auto length = std::min(kWidth, static_cast<size_t>(kb / 4));
  std::printf("\r%-18s run %u  %6.1f + %6.1f Mb/s  queue %6.1f KB |%-*s| marked %llu   ",
              controller.c_str(), run + 1, moment.mbps[0], moment.mbps[1], kb,
              static_cast<int>(kWidth), std::string(length, '#').c_str(),
              static_cast<unsigned long long>(moment.marked));
  std::fflush(stdout);
}

void print_row(const std::string& controller, const std::string& run, const Seen& s) {
  std::printf("%s%-18s %6s %8.1f %9.1f %9.1f %9.1f %9.1f %9.3f %8llu %8llu %7llu %9.1f\n",
              ::isatty(STDOUT_FILENO) != 0 ? "\r\033[K" : "", controller.c_str(), run.c_str(),
              s.utilisation * 100, s.mean_queue / 1024, s.p50_queue / 1024.0, s.p95_queue / 1024.0,
              s.most_queue / 1024.0, s.fairness, static_cast<unsigned long long>(s.marked),
              static_cast<unsigned long long>(s.dropped),
              static_cast<unsigned long long>(s.retransmitted), s.longest_gap_us / 1000);
  std::fflush(stdout);
}

// Of each column.
Seen median(std::vector<Seen> runs) {
  Seen result = runs.front();
  const auto of = [&runs](auto member) {
    std::sort(runs.begin(), runs.end(),
              [member](const Seen& a, const Seen& b) { return a.*member < b.*member; });
    return runs[runs.size() / 2].*member;
  };
  result.utilisation = of(&Seen::utilisation);
  result.mean_queue = of(&Seen::mean_queue);
  result.p50_queue = of(&Seen::p50_queue);
  result.p95_queue = of(&Seen::p95_queue);
  result.most_queue = of(&Seen::most_queue);
  result.fairness = of(&Seen::fairness);
  result.marked = of(&Seen::marked);
  result.dropped = of(&Seen::dropped);
  result.retransmitted = of(&Seen::retransmitted);
  result.longest_gap_us = of(&Seen::longest_gap_us);
  return result;
}

Result<Seen> run_once(const std::string& controller, uint32_t run, const DemoOptions& o) {
  const Shape shape = shape_of(o);
  const Result<Keys> keys = keys_of(controller, o);
  if (!keys) return keys.error();
  const Result<sim::SwitchOptions> options = shape.options();
  if (!options) return options.error();
  Result<std::unique_ptr<Dumbbell>> dumbbell =
      Dumbbell::open(shape.hosts, *options, keys->senders, keys->receiver, o.mtu);
  if (!dumbbell) return dumbbell.error();
  return (*dumbbell)->run(o.warm_up_s, o.seconds,
                          [&](const Moment& moment) { show(controller, run, moment); });
}

}  // namespace

int demo(const DemoOptions& o) {
  std::printf("two senders, every cable %u Mb/s and %.0f us one way: T = %.0f us, BDP %.1f KB\n",
              o.mbps, o.delay_us, rtt_us(o), rtt_us(o) * o.mbps / 8 / 1024);
  std::printf("%-18s %6s %8s %9s %9s %9s %9s %9s %8s %8s %7s %9s\n", "controller", "run", "link %",
              "mean KB", "p50 KB", "p95 KB", "max KB", "fairness", "marked", "dropped", "again",
              "gap ms");
  std::vector<std::vector<Seen>> seen(o.controllers.size());
  for (uint32_t run = 0; run < o.runs; ++run) {
    for (size_t i = 0; i < o.controllers.size(); ++i) {
      const Result<Seen> once = run_once(o.controllers[i], run, o);
      if (!once) {
        std::fprintf(stderr, "weft_switch: %s\n", once.error().message.c_str());
        return 1;
      }
      seen[i].push_back(*once);
      print_row(o.controllers[i], std::to_string(run + 1), *once);
    }
  }
  for (size_t i = 0; i < o.controllers.size(); ++i)
    print_row(o.controllers[i], "median", median(seen[i]));
  return 0;
}

}  // namespace weft::bench
