// SPDX-License-Identifier: BSD-3-Clause
// Tasks that wait for each other: messages of connections and work of hosts, over both kinds of
// light hosts. Every wait is kept, every byte arrives, equal seeds give equal digests.
#include <algorithm>

#include "lib/base/random.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

Result<RunResult> run_tasks(const fabric::Topology& topology, const std::string& controller,
                            const std::vector<FlowSpec>& flows, const TaskGraph& graph,
                            RunOptions options = {}, const Parameters& parameters = Parameters()) {
  const Result<Scheme> scheme = make_scheme(controller, parameters, topology);
  REQUIRE(scheme);
  options.tasks = &graph;
  options.sample_ns = 0;
  return run(topology, *scheme, flows, options);
}

int64_t end_of(const TaskTimes& times, bool acknowledged) {
  return acknowledged ? times.acknowledged_ns : times.arrived_ns;
}

// All that the tasks of a finished run promise. A message's start may be later than its waits
// allow: it also waits for the earlier ones of its flow.
void check_kept(const TaskGraph& graph, const RunResult& result) {
  REQUIRE(result.tasks.size() == graph.tasks.size());
  for (const TaskTimes& times : result.tasks) {
    REQUIRE(times.started_ns >= 0);
    REQUIRE(times.arrived_ns >= times.started_ns);
    REQUIRE(times.acknowledged_ns >= times.arrived_ns);
  }
  for (const Wait& wait : graph.waits) {
    const Task& task = graph.tasks[wait.task];
    const int64_t think_ns = task.flow == kNoFlow ? 0 : task.delay_ns;
    INFO("task " << wait.task << " waits for " << wait.before);
    // Both times are cut off to ns.
    REQUIRE(result.tasks[wait.task].started_ns + 1 >=
            end_of(result.tasks[wait.before], wait.acknowledged) + think_ns);
  }
}

uint64_t packets_of(const TaskGraph& graph, uint32_t payload) {
  uint64_t packets = 0;
  for (const Task& task : graph.tasks)
    if (task.flow != kNoFlow) packets += (task.bytes + payload - 1) / payload;
  return packets;
}

TEST_CASE("a message starts when the one that it waits for has arrived, and its delay passed") {
  const fabric::Topology topology = star(3);
  for (const std::string controller : {"hpcc", "nscc"}) {
    INFO(controller);
    TaskGraph graph;
    const uint32_t first = graph.add({.flow = 0, .bytes = 100'000, .start_ns = 5000});
    const uint32_t compute = graph.add({.delay_ns = 20'000});
    const uint32_t answer = graph.add({.flow = 1, .bytes = 50'000, .delay_ns = 700});
    const uint32_t again = graph.add({.flow = 0, .bytes = 1});
    graph.wait(compute, first);
    graph.wait(answer, compute);
    graph.wait(again, answer, true);
    const std::vector<FlowSpec> flows = {{.src = 0, .dst = 1, .bytes = 100'001},
                                         {.src = 1, .dst = 0, .bytes = 50'000}};
    const Result<RunResult> result = run_tasks(topology, controller, flows, graph);
    REQUIRE(result);
    check_kept(graph, *result);
    const std::vector<TaskTimes>& times = result->tasks;
    CHECK(times[first].started_ns == 5000);
    CHECK(times[compute].arrived_ns == times[first].arrived_ns + 20'000);
    CHECK(times[answer].started_ns == times[compute].arrived_ns + 700);
    CHECK(times[again].started_ns == times[answer].acknowledged_ns);
    // A packet of one byte crosses two links of 1 us.
    CHECK(times[again].arrived_ns - times[again].started_ns < 2100);
    CHECK(result->flows[0].started_ns == 5000);
    CHECK(result->flows[0].fct_ns + 5000 == times[again].acknowledged_ns);
  }
}

TEST_CASE("messages of a connection are sent in order, each with a short last packet") {
  const fabric::Topology topology = star(2);
  TaskGraph graph;
  uint64_t bytes = 0;
  for (const uint64_t size : {1500u, 1u, 1000u, 2001u}) {
    graph.add({.flow = 0, .bytes = size});
    bytes += size;
  }
  const uint32_t gate = graph.add({.delay_ns = 50'000});
  graph.wait(1, gate);  // the third and the fourth may be sent before, but for the order
  const std::vector<FlowSpec> flows = {{.src = 0, .dst = 1, .bytes = bytes}};
  const Result<RunResult> result = run_tasks(topology, "none", flows, graph);
  REQUIRE(result);
  CHECK(result->data_delivered == 2 + 1 + 1 + 3);
  CHECK(result->tasks[0].arrived_ns < 10'000);
  CHECK(result->tasks[1].started_ns == 50'000);
  CHECK(result->tasks[2].started_ns == 50'000);
  CHECK(result->tasks[1].arrived_ns < result->tasks[2].arrived_ns);
  CHECK(result->tasks[2].arrived_ns < result->tasks[3].arrived_ns);
}

TEST_CASE("graphs that cannot run are refused with the task") {
  const fabric::Topology topology = star(2);
  const std::vector<FlowSpec> flows = {{.src = 0, .dst = 1, .bytes = 2000}};
  const auto message_of = [&](const TaskGraph& graph, const Parameters& parameters) {
    const Result<RunResult> result = run_tasks(topology, "none", flows, graph, {}, parameters);
    REQUIRE(!result);
    return result.error().message;
  };
  TaskGraph cycle;
  cycle.add({.flow = 0, .bytes = 1000});
  cycle.add({.flow = 0, .bytes = 1000});
  TaskGraph sound = cycle;
  cycle.wait(0, 1);  // the second of its flow, which cannot be sent before it
  CHECK(message_of(cycle, {}) == "task 0: waits for itself, through other tasks");
  TaskGraph bytes = sound;
  bytes.tasks[1].bytes = 999;
  CHECK(message_of(bytes, {}) == "flow 0 has 2000 bytes, its messages 1999");
  TaskGraph flow = sound;
  flow.tasks[1].flow = 7;
  CHECK(message_of(flow, {}) == "task 1: is a message of flow 7, there are 1");
  TaskGraph missing = sound;
  missing.wait(1, 2);
  CHECK(message_of(missing, {}) == "task 2: is waited for or waits, but there are only 2");
  CHECK(message_of(sound, with({{"host.fidelity", "engine"}})).find("host.fidelity") !=
        std::string::npos);
}

// Random graphs among six hosts, with waits on earlier tasks only.
TaskGraph random_graph(base::Random& random, std::vector<FlowSpec>& flows) {
  TaskGraph graph;
  for (uint32_t src = 0; src < 6; ++src)
    for (uint32_t dst = 0; dst < 6; ++dst)
      if (src != dst) flows.push_back({.src = src, .dst = dst, .bytes = 0});
  const auto tasks = static_cast<uint32_t>(20 + random.below(60));
  for (uint32_t number = 0; number < tasks; ++number) {
    Task task;
    if (random.below(3) != 0) {
      task.flow = static_cast<uint32_t>(random.below(static_cast<uint32_t>(flows.size())));
      task.bytes = 1 + random.below(random.below(4) == 0 ? 300'000 : 5000);
      flows[task.flow].bytes += task.bytes;
    }
    if (random.below(2) != 0) task.delay_ns = static_cast<int64_t>(random.below(20'000));
    graph.add(task);
    for (uint64_t waits = random.below(4); number > 0 && waits > 0; --waits)
      graph.wait(number, static_cast<uint32_t>(random.below(number)), random.below(2) != 0);
  }
  for (FlowSpec& flow : flows)
    if (flow.bytes == 0) flow.bytes = 1 + random.below(100'000);  // background, no messages
  return graph;
}

TEST_CASE("random graphs keep every wait and deliver every byte, with and without loss") {
  const fabric::Topology topology = leaf_spine(3);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    base::Random random(seed);
    std::vector<FlowSpec> flows;
    const TaskGraph graph = random_graph(random, flows);
    const std::string controller =
        std::array{"none", "hpcc", "dcqcn-hpccsim", "nscc", "rccc"}[seed % 5];
    INFO("seed " << seed << ", " << controller << "; replay: this case with seed = " << seed);
    RunOptions options{.seed = seed};
    if (seed % 3 == 0) options.link_changes = {{.at_ns = 0, .from = 0, .to = 6, .loss = 0.01}};
    const Result<RunResult> result = run_tasks(topology, controller, flows, graph, options);
    REQUIRE(result);
    check_kept(graph, *result);
    uint64_t packets = 0;
    const Result<Scheme> scheme = make_scheme(controller, Parameters(), topology);
    for (uint32_t i = 0; i < flows.size(); ++i)
      if (std::none_of(graph.tasks.begin(), graph.tasks.end(),
                       [&](const Task& task) { return task.flow == i; }))
        packets += (flows[i].bytes + scheme->payload - 1) / scheme->payload;
    packets += packets_of(graph, scheme->payload);
    if (seed % 3 == 0)
      CHECK(result->data_delivered >= packets);  // some twice
    else
      CHECK(result->data_delivered == packets);
    const fabric::Counters& c = result->counters;
    CHECK(c.sent == c.delivered + c.dropped + c.lost + result->in_flight);
    const Result<RunResult> again = run_tasks(topology, controller, flows, graph, options);
    REQUIRE(again);
    CHECK(again->digest == result->digest);
  }
}

}  // namespace
}  // namespace weft::sim::flow
