// SPDX-License-Identifier: BSD-3-Clause
// The shipped scenarios of the papers' figures, run as they are where they are small, against what
// the papers print (HPCC SIGCOMM'19, figure 11; DCQCN and TIMELY SIGCOMM'15) and, where a paper
// shows a curve only, against its shape. docs/history/results.md has all of them.
#include <algorithm>
#include <array>
#include <cmath>

#include "lib/sim/scenario/scenario.hpp"
#include "tests/sim/sim_support.hpp"
#include "tests/support/paths.hpp"

#if __has_include(<toml++/toml.h>)
namespace weft::sim::scenario {
namespace {

flow::RunResult run_shipped(const std::string& name, const std::string& controller) {
  const std::string file = (test::source_root() / "scenarios" / (name + ".toml")).string();
  const Result<Scenario> s = read_scenario(file, 1);
  INFO((s ? std::string() : s.error().message));
  REQUIRE(s);
  flow::Parameters parameters;
  for (const auto& [key, value] : s->settings) REQUIRE(parameters.set(key, value));
  flow::RunOptions options{.link_changes = s->link_changes};
  options.detection_ns = static_cast<int64_t>(parameters[flow::Net::detection]);
  options.queue_window_ns = static_cast<int64_t>(parameters[flow::Net::queue_window]);
  return flow::simulate(s->topology, controller, s->flows, parameters, options);
}

// Jain's index of the first `flows` rates, its mean and the largest coefficient of variation of one
// rate, between two times.
struct Share {
  double jain = 0;
  double variation = 0;
};
Share share(const flow::RunResult& r, size_t flows, int64_t from_ns, int64_t to_ns) {
  Share result;
  double points = 0;
  std::array<double, 8> sums{};
  std::array<double, 8> squares{};
  for (const flow::Series::Point& point : r.series.points()) {
    if (point.at_ns < from_ns || point.at_ns >= to_ns) continue;
    double sum = 0;
    double square = 0;
    for (size_t i = 0; i < flows; ++i) {
      const double rate = point.gbps[i];
      sum += rate;
      square += rate * rate;
      sums[i] += rate;
      squares[i] += rate * rate;
    }
    result.jain += sum * sum / (static_cast<double>(flows) * square);
    ++points;
  }
  REQUIRE(points > 10);
  result.jain /= points;
  for (size_t i = 0; i < flows; ++i) {
    const double mean = sums[i] / points;
    const double variance = std::max(0.0, squares[i] / points - mean * mean);
    result.variation = std::max(result.variation, std::sqrt(variance) / mean);
  }
  return result;
}

TEST_CASE(
    "figure 11a: after a 1 MB flow has left, hpcc is back at line rate, dcqcn is not for 2 ms") {
  const auto rate_after = [](const flow::RunResult& r, int64_t later_ns) {
    const int64_t gone = 300'000 + r.flows[1].fct_ns;
    for (const flow::Series::Point& point : r.series.points())
      if (point.at_ns >= gone + later_ns) return point.gbps[0];
    return 0.f;
  };
  CHECK(rate_after(run_shipped("long-flow-returns", "hpcc"), 100'000) > 0.9 * 25);
  CHECK(rate_after(run_shipped("long-flow-returns", "dcqcn-nic"), 2'000'000) < 0.9 * 25);
  CHECK(rate_after(run_shipped("long-flow-returns", "dcqcn-hpccsim"), 2'000'000) < 0.9 * 25);
}

TEST_CASE("figure 11b: seven senders join, dcqcn peaks at 550 KB, hpcc drains at once") {
  const flow::RunResult dcqcn = run_shipped("incast-onto-long", "dcqcn-nic");
  CHECK(static_cast<double>(dcqcn.queues.most_kb()) == Approx(550).epsilon(0.2));
  const flow::RunResult hpcc = run_shipped("incast-onto-long", "hpcc");
  // Eight BDP less one, 17 KB each, at most; ten RTT later 10 KB are left.
  CHECK(hpcc.queues.most_kb() < 140);
  for (const flow::QueueSamples::Window& w : hpcc.queues.windows())
    if (w.begin_ns >= 580'000) CHECK(w.most_kb < 10);
}

TEST_CASE("figure 11c: mice take the base RTT with hpcc, several times that with dcqcn") {
  const auto slowest = [](const char* controller) {
    const flow::RunResult r = run_shipped("elephant-mice", controller);
    return std::max_element(r.flows.begin() + 2, r.flows.end(),
                            [](const auto& a, const auto& b) { return a.fct_ns < b.fct_ns; })
        ->fct_ns;
  };
  CHECK(slowest("hpcc") < 4'500);  // unloaded: 4.2 us
  CHECK(slowest("dcqcn-nic") > 35'000);
  CHECK(slowest("timely") > 35'000);
}

TEST_CASE("dcqcn and timely converge to equal shares, and swing about them, hpcc does not swing") {
  // Two flows from 1 ms on; the second half of the millisecond.
  const Share dcqcn =
      share(run_shipped("fairness-staircase", "dcqcn-hpccsim"), 2, 1'500'000, 2'000'000);
  const Share timely = share(run_shipped("fairness-staircase", "timely"), 2, 1'500'000, 2'000'000);
  const Share hpcc = share(run_shipped("fairness-staircase", "hpcc"), 2, 1'500'000, 2'000'000);
  CHECK(dcqcn.jain > 0.95);
  CHECK(timely.jain > 0.95);
  CHECK(hpcc.jain > 0.95);
  CHECK(dcqcn.variation > 0.1);
  CHECK(timely.variation > 0.1);
  CHECK(hpcc.variation < 0.05);
}

TEST_CASE("scenarios/link-failure: all flows end") {
  for (const char* controller : {"hpcc", "nscc"}) {
    const flow::RunResult r = run_shipped("link-failure", controller);
    CHECK(r.counters.lost > 0);
    for (const flow::FlowResult& flow : r.flows) CHECK(flow.fct_ns > 0);
  }
}

}  // namespace
}  // namespace weft::sim::scenario
#endif
