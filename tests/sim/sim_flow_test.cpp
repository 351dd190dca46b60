// SPDX-License-Identifier: BSD-3-Clause
// Times and counts of the flow-fidelity simulator that can be worked out by hand, and the HPCC
// paper's incast in numbers that follow from arithmetic.
#include <algorithm>

#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

Parameters whole_ns() { return with({{"net.floor_ns", "1"}}); }

TEST_CASE("an unloaded flow takes serialisation and delay at every hop, in whole ns") {
  // 1 packet of 1048 B at 100G: 83 ns (83.84 cut), 2 links each way; ACK of 60 B: 4 ns.
  const RunResult one =
      simulate(star(2), "none", {{.src = 0, .dst = 1, .bytes = 1000}}, whole_ns());
  CHECK(one.flows[0].fct_ns == 2 * (83 + 1000) + 2 * (4 + 1000));
  // hpcc: 1090 B (87 ns) and ACKs of 88 B (7 ns).
  const RunResult telemetry =
      simulate(star(2), "hpcc", {{.src = 0, .dst = 1, .bytes = 1000}}, whole_ns());
  CHECK(telemetry.flows[0].fct_ns == 2 * (87 + 1000) + 2 * (7 + 1000));
  // timely: 1056 B (84 ns). The last packet is as short as it needs to be: 57 B, 4 ns.
  const RunResult stamped =
      simulate(star(2), "timely", {{.src = 0, .dst = 1, .bytes = 1}}, whole_ns());
  CHECK(stamped.flows[0].fct_ns == 2 * (4 + 1000) + 2 * (4 + 1000));
  // 100 packets leave back to back.
  const RunResult many =
      simulate(star(2), "none", {{.src = 0, .dst = 1, .bytes = 100'000}}, whole_ns());
  CHECK(many.flows[0].fct_ns == one.flows[0].fct_ns + 99 * 83);
  // Exact: 83.84 ns and 4.8 ns.
  const RunResult exact = simulate(star(2), "none", {{.src = 0, .dst = 1, .bytes = 100'000}});
  CHECK(exact.flows[0].fct_ns == (101 * 83'840 + 2 * 4'800 + 4'000'000) / 1000);
}

TEST_CASE("the ideal FCT is the one of the reference") {
  const fabric::Topology topology = leaf_spine(2);
  const RunResult r = simulate(topology, "hpcc",
                               {{.src = 0, .dst = 1, .bytes = 1000},
                                {.src = 0, .dst = 2, .bytes = 123'456},
                                {.src = 0, .dst = 2, .bytes = 1}});
  CHECK(r.flows[0].ideal_ns == 4160 + 1048 * 8 / 100);
  CHECK(r.flows[1].ideal_ns == 8200 + (123'456 + 48 * 124) * 8 / 100);
  CHECK(r.flows[2].ideal_ns == 8200 + 49 * 8 / 100);
}

TEST_CASE("16-to-1 incast: the first burst is arithmetic, hpcc drains it and keeps it empty") {
  const RunResult r =
      simulate(star(17), "hpcc", incast(16, 500'000), Parameters(), {.until_ns = 1'000'000});
  // 16 senders put up to W0 = 52,000 B payload each into the network; one of them drains.
  CHECK(r.queues.most_kb() > 780);
  CHECK(r.queues.most_kb() < 900);
  CHECK(r.counters.dropped == 0);
  CHECK(r.counters.pauses == 0);
  // About 15 RTT of drain; from 100 us on the queue stays below 30 KB.
  for (const QueueSamples::Window& w : r.queues.windows())
    if (w.begin_ns >= 100'000) CHECK(w.most_kb < 30);
  const int64_t last =
      std::max_element(r.flows.begin(), r.flows.end(), [](const auto& a, const auto& b) {
        return a.fct_ns < b.fct_ns;
      })->fct_ns;
  // 16 x 500 packets of 1090 B at 87 ns are 696 us: at least 90 % of the link until the last.
  CHECK(last > 696'000);
  CHECK(last < 696'000 / 0.9);
}

TEST_CASE("without a window an incast's queue holds nearly everything, a window bounds it") {
  const std::vector<FlowSpec> flows = incast(16, 500'000);
  const RunResult open = simulate(star(17), "none", flows);
  const RunResult bounded = simulate(star(17), "none+win", flows);
  CHECK(open.queues.most_kb() > 7000);
  CHECK(bounded.queues.most_kb() < 900);
}

TEST_CASE("dcqcn keeps a longer queue than hpcc in the same incast") {
  const std::vector<FlowSpec> flows = incast(16, 500'000);
  const RunResult hpcc = simulate(star(17), "hpcc", flows);
  const RunResult dcqcn = simulate(star(17), "dcqcn-hpccsim", flows);
  CHECK(dcqcn.queues.most_kb() > 3 * hpcc.queues.most_kb());
  CHECK(dcqcn.counters.marked > 0);
}

TEST_CASE("a small buffer pauses and drops nothing, without PFC it drops and go-back-N recovers") {
  const std::vector<FlowSpec> flows = incast(16, 500'000);
  const RunResult paused = simulate(star(17), "none", flows, with({{"switch.buffer_mb", "2"}}));
  CHECK(paused.counters.dropped == 0);
  CHECK(paused.counters.pauses > 0);
  CHECK(paused.counters.pauses == paused.counters.resumes);
  CHECK(paused.paused_ns > 0);
  const RunResult lossy =
      simulate(star(17), "none", flows, with({{"switch.buffer_mb", "1"}, {"switch.pfc", "0"}}));
  CHECK(lossy.counters.dropped > 0);
  CHECK(lossy.counters.pauses == 0);
  CHECK(lossy.retransmitted > 0);
  for (const RunResult* r : {&paused, &lossy})
    for (const FlowResult& flow : r->flows) CHECK(flow.fct_ns > 0);
}

TEST_CASE("a ring of switches with small buffers deadlocks under PFC, and the cycle is reported") {
  // Hosts 0..3 at switches 4..7 in a ring; every flow goes three switches on, clockwise.
  std::vector<fabric::Cable> cables;
  for (uint32_t i = 0; i < 4; ++i) cables.push_back({i, 4 + i, 100'000, 1000});
  for (uint32_t i = 0; i < 4; ++i) cables.push_back({4 + i, 4 + (i + 1) % 4, 100'000, 1000});
  const Result<fabric::Topology> ring = fabric::Topology::make(std::move(cables));
  REQUIRE(ring);
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < 4; ++i)
    flows.push_back({.src = i,
                     .dst = (i + 2) % 4,
                     .bytes = 5'000'000,
                     .path = {i, 4 + i, 4 + (i + 1) % 4, 4 + (i + 2) % 4, (i + 2) % 4}});
  const RunResult stuck = simulate(*ring, "none", flows, with({{"switch.buffer_mb", "0.5"}}));
  CHECK(stuck.deadlocked);
  CHECK(stuck.counters.dropped == 0);
  CHECK(stuck.in_flight > 0);
  // A circle through all four: "4 -> 5 -> 6 -> 7 -> 4" from any of them.
  CHECK(std::count(stuck.deadlock.begin(), stuck.deadlock.end(), '>') == 4);
  CHECK(stuck.deadlock.front() == stuck.deadlock.back());
  // Without PFC a full buffer drops, and nothing waits for anything. //= threat:A23
  const RunResult lossy =
      simulate(*ring, "none", flows, with({{"switch.buffer_mb", "0.5"}, {"switch.pfc", "0"}}));
  CHECK(!lossy.deadlocked);
  CHECK(lossy.counters.dropped > 0);
  for (const FlowResult& flow : lossy.flows) CHECK(flow.fct_ns > 0);
  // Enough room, or a window that fits, and nothing is ever paused.
  const RunResult windowed = simulate(*ring, "hpcc", flows);
  CHECK(!windowed.deadlocked);
  for (const FlowResult& flow : windowed.flows) CHECK(flow.fct_ns > 0);
}

// A packet has room for the telemetry of five switches; with six a queue at the last would go
// unseen.
TEST_CASE("a controller by telemetry refuses a network of more switches than a packet records") {
  const auto line = [](uint32_t switches) {
    std::vector<fabric::Cable> cables = {{0, 2, 100'000, 1000}, {1, 1 + switches, 100'000, 1000}};
    for (uint32_t i = 0; i + 1 < switches; ++i) cables.push_back({2 + i, 3 + i, 100'000, 1000});
    return *fabric::Topology::make(std::move(cables));
  };
  for (const char* const controller : {"hpcc", "powertcp"}) {
    CHECK(make_scheme(controller, Parameters(), line(5)));
    const Result<Scheme> scheme = make_scheme(controller, Parameters(), line(6));
    REQUIRE(!scheme);
    CHECK(scheme.error().code == Code::not_supported);
    CHECK(scheme.error().message.find("6 switches") != std::string::npos);
  }
  CHECK(make_scheme("hpcc-pint", Parameters(), line(6)));
  CHECK(make_scheme("dcqcn-nic", Parameters(), line(6)));
}

// While two flows fill the queue to host 1, the acknowledgements of the flow that it sends join
// that queue.
TEST_CASE("acknowledgements wait in the queue of data in switches unless they have class 0") {
  std::vector<FlowSpec> flows = incast(1, 100'000);
  flows.push_back({.src = 2, .dst = 1, .bytes = 1'000'000});
  flows.push_back({.src = 3, .dst = 1, .bytes = 1'000'000});
  const auto first_done = [&](const char* ack_class) {
    return simulate(star(4), "none", flows, with({{"net.ack_class", ack_class}})).flows[0].fct_ns;
  };
  CHECK(first_done("auto") == first_done("3"));
  CHECK(first_done("0") + 5'000 < first_done("3"));
}

TEST_CASE("two flows of one NIC are served round robin, within the NIC's rate") {
  const RunResult r =
      simulate(star(3), "none",
               {{.src = 0, .dst = 1, .bytes = 1'000'000}, {.src = 0, .dst = 2, .bytes = 1'000'000}},
               whole_ns());
  const int64_t alone = 2 * (83 + 1000) + 2 * (4 + 1000) + 999 * 83;
  CHECK(r.flows[0].fct_ns == alone + 999 * 83);
  CHECK(r.flows[1].fct_ns == alone + 1000 * 83);
}

TEST_CASE("a run that ends early leaves flows unfinished and counts packets in flight") {
  const RunResult r =
      simulate(star(17), "dctcp", incast(16, 500'000), Parameters(), {.until_ns = 100'000});
  CHECK(r.end_ns == 100'000);
  CHECK(r.in_flight > 0);
  for (const FlowResult& flow : r.flows) CHECK(flow.fct_ns == -1);
}

TEST_CASE("the same input gives the same run, another seed another one") {
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < 200; ++i)
    flows.push_back({.start_ns = 500 * i, .src = i % 8, .dst = (i * 5 + 3) % 8, .bytes = 20'000});
  std::erase_if(flows, [](const FlowSpec& f) { return f.src == f.dst; });
  for (const congestion::Kind* kind : congestion::kinds()) {
    const std::string name(kind->name);
    INFO(name);
    const fabric::Topology topology = leaf_spine(4, 50'000);  // where paths matter
    const uint64_t digest = simulate(topology, name, flows).digest;
    CHECK(simulate(topology, name, flows).digest == digest);
    CHECK(simulate(topology, name, flows, Parameters(), {.seed = 2}).digest != digest);
  }
}

TEST_CASE("invalid flows are refused with their row") {
  const fabric::Topology topology = star(3);
  const Result<Scheme> scheme = make_scheme("none", Parameters(), topology);
  REQUIRE(scheme);
  const auto message = [&](const FlowSpec& spec) {
    const std::vector<FlowSpec> flows = {{.src = 0, .dst = 1, .bytes = 1}, spec};
    const Result<RunResult> r = run(topology, *scheme, flows, {});
    REQUIRE(!r);
    return r.error().message;
  };
  CHECK(message({.src = 3, .dst = 1, .bytes = 1}).find("flow 2: node 3 is no host") == 0);
  CHECK(message({.src = 1, .dst = 1, .bytes = 1}).find("same host") != std::string::npos);
  CHECK(message({.src = 1, .dst = 2, .bytes = 0}).find("0 bytes") != std::string::npos);
  CHECK(message({.src = 1, .dst = 2, .bytes = 9, .path = {1, 2}}).find("no link") !=
        std::string::npos);
}

}  // namespace
}  // namespace weft::sim::flow
