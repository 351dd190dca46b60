// SPDX-License-Identifier: BSD-3-Clause
// The HPCC paper's small figures as tests, with the tolerance that the figure's shape needs: mice
// beside elephants, an incast onto a long flow, a flow that leaves, the additive increase,
// fairness, and who needs PFC. The large runs are scenarios; docs/history/results.md has their
// figures.
#include <algorithm>

#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

// The longest FCT of the flows from `first` on.
int64_t slowest(const RunResult& r, size_t first) {
  int64_t most = 0;
  for (size_t i = first; i < r.flows.size(); ++i) {
    REQUIRE(r.flows[i].fct_ns > 0);
    most = std::max(most, r.flows[i].fct_ns);
  }
  return most;
}

TEST_CASE("1 KB mice beside two elephants: base RTT with hpcc, many times that with dcqcn") {
  std::vector<FlowSpec> flows = {{.src = 1, .dst = 0, .bytes = 20'000'000},
                                 {.src = 2, .dst = 0, .bytes = 20'000'000}};
  for (int i = 0; i < 100; ++i)
    flows.push_back({.start_ns = 500'000 + i * 20'000, .src = 3, .dst = 0, .bytes = 1000});
  const fabric::Topology topology = star(4);
  // HPCC figure 11c: 5.4 us with a base RTT of 5.4 us; here the base is 4.2 us.
  CHECK(slowest(simulate(topology, "hpcc", flows), 2) < 4500);
  CHECK(slowest(simulate(topology, "dcqcn-hpccsim", flows), 2) > 30'000);
  CHECK(slowest(simulate(topology, "dcqcn-nic", flows), 2) > 30'000);
}

TEST_CASE("7-to-1 onto a long flow: hpcc is back below 30 KB in 100 us, dcqcn piles up") {
  std::vector<FlowSpec> flows = {{.src = 1, .dst = 0, .bytes = 20'000'000}};
  for (uint32_t i = 2; i < 9; ++i)
    flows.push_back({.start_ns = 500'000, .src = i, .dst = 0, .bytes = 500'000});
  const RunResult hpcc = simulate(star(9), "hpcc", flows);
  const RunResult dcqcn = simulate(star(9), "dcqcn-hpccsim", flows);
  // (8 - 1) x 52 KB at most, and a drain of as many RTT.
  CHECK(hpcc.queues.most_kb() < 430);
  for (const QueueSamples::Window& w : hpcc.queues.windows())
    if (w.begin_ns >= 600'000) CHECK(w.most_kb < 30);
  CHECK(dcqcn.queues.most_kb() > 4 * hpcc.queues.most_kb());
}

TEST_CASE("a 1 MB flow comes and leaves: the long flow is back at line rate with hpcc") {
  const std::vector<FlowSpec> flows = {
      {.src = 1, .dst = 0, .bytes = 50'000'000},
      {.start_ns = 300'000, .src = 2, .dst = 0, .bytes = 1'000'000}};
  const fabric::Topology topology = star(3);
  const auto extra = [&](const char* controller) {
    const RunResult both = simulate(topology, controller, flows);
    const RunResult alone = simulate(topology, controller, {flows[0]});
    return both.flows[0].fct_ns - alone.flows[0].fct_ns;
  };
  // The other flow's bytes take 91 us of the link; what is beyond is capacity lost.
  CHECK(extra("hpcc") < 130'000);
  CHECK(extra("dcqcn-hpccsim") > 350'000);
  CHECK(extra("dcqcn-nic") > 350'000);
}

TEST_CASE("hpcc: W_AI up to 150 B keeps 16 flows' queue at 4 KB, 300 B does not") {
  const auto queue_kb = [](const char* r_ai_mbps) {
    const RunResult r =
        simulate(star(17), "hpcc", incast(16, 4'000'000), with({{"hpcc.r_ai_mbps", r_ai_mbps}}));
    // p95 of the one port of 17 that has a queue.
    return r.queues.percentile_kb(1 - 0.05 / 17);
  };
  // HPCC figure 14: p95 of at most 4 KB up to 150 B, 13 KB at 300 B. W_AI = R_AI x 4.16 us / 8.
  CHECK(queue_kb("154") <= 5);
  CHECK(queue_kb("288") <= 6);
  CHECK(queue_kb("577") >= 9);
  CHECK(queue_kb("577") <= 17);
}

TEST_CASE("four long hpcc flows share a link evenly, if W_AI is the paper's 80 B") {
  // 80 B per T of 4.16 us. With 26 B (the 50 Mb/s of the larger network) what each sender measures
  // amiss outweighs the additive increase, and the shares wander.
  const RunResult r = simulate(star(5), "hpcc", incast(4, 100'000'000),
                               with({{"hpcc.r_ai_mbps", "154"}}), {.until_ns = 8'000'000});
  std::array<double, 4> mean{};
  size_t count = 0;
  for (const Series::Point& point : r.series.points()) {
    if (point.at_ns < 4'000'000) continue;
    ++count;
    for (size_t i = 0; i < 4; ++i) mean[i] += point.gbps[i];
  }
  for (double& rate : mean) rate /= static_cast<double>(count);
  double sum = 0;
  double squares = 0;
  for (const double rate : mean) {
    sum += rate;
    squares += rate * rate;
  }
  CHECK(sum * sum / (4 * squares) > 0.97);  // Jain's index
  CHECK(r.busiest_link > 0.93);
}

TEST_CASE("60-to-1: a window keeps the network free of PFC, timely without one pauses it") {
  const std::vector<FlowSpec> flows = incast(60, 500'000);
  for (const char* controller : {"hpcc", "hpcc-pint", "dctcp", "dcqcn-hpccsim+win", "timely+win"}) {
    INFO(controller);
    const RunResult r = simulate(star(61), controller, flows);
    CHECK(r.counters.pauses == 0);
    CHECK(r.counters.dropped == 0);
    // 60 x 52 KB of payload with headers, less what drained meanwhile.
    CHECK(r.queues.most_kb() > 3000);
    CHECK(r.queues.most_kb() < 3500);
  }
  const RunResult timely = simulate(star(61), "timely", flows);
  CHECK(timely.counters.pauses > 0);
  CHECK(timely.counters.dropped == 0);
}

TEST_CASE("hpcc: the incast's senders have halved within two RTT, the queue drains at line rate") {
  const RunResult r = simulate(star(17), "hpcc", incast(16, 500'000));
  int64_t cut_at = 0;
  uint32_t peak = 0;
  int64_t peak_at = 0;
  int64_t drained_at = 0;
  for (const Series::Point& point : r.series.points()) {
    float fastest = 0;
    for (const float gbps : point.gbps) fastest = std::max(fastest, gbps);
    if (cut_at == 0 && point.at_ns > 0 && fastest < 50) cut_at = point.at_ns;
    if (point.longest_queue > peak) {
      peak = point.longest_queue;
      peak_at = point.at_ns;
    }
    if (drained_at == 0 && peak > 500'000 && point.longest_queue < 30'000) drained_at = point.at_ns;
  }
  // T = 4.16 us. The first acknowledgement is only stored; the second one's packet waited
  // behind 32.
  CHECK(cut_at > 4'000);
  CHECK(cut_at <= 10'000);
  // The excess leaves at 12.5 B/ns; 16 senders at the least rate of 1 Gb/s go on with 2 B/ns.
  const double drain_ns = static_cast<double>(drained_at - peak_at);
  CHECK(drain_ns > (peak - 30'000) / 12.5);
  CHECK(drain_ns < peak / (12.5 - 2) * 1.1);
}

}  // namespace
}  // namespace weft::sim::flow
