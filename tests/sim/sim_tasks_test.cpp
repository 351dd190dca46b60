// SPDX-License-Identifier: BSD-3-Clause
// Tasks that wait for each other: messages of connections and work of hosts, over both kinds of
// light hosts. Every wait is kept, every byte arrives, equal seeds give equal digests.
#include <algorithm>

#include "lib/base/random.hpp"
#include "lib/sim/tasks/task_run.hpp"
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

TEST_CASE("each wrong number of a graph is refused, and the largest right ones are not") {
  const std::vector<FlowSpec> flows = {{.src = 0, .dst = 1, .bytes = 1000},
                                       {.src = 1, .dst = 0, .bytes = 500}};
  constexpr int64_t kMost = kNever / 4000;
  const auto message_of = [&](const Task& task) {
    TaskGraph graph;
    graph.add({.flow = 0, .bytes = 1000});
    graph.add(task);
    const Result<void> checked = check_tasks(graph, flows);
    return checked ? std::string() : checked.error().message;
  };
  CHECK(message_of({.delay_ns = -1}) == "task 1: has a time before 0");
  CHECK(message_of({.start_ns = -1}) == "task 1: has a time before 0");
  CHECK(message_of({.delay_ns = kMost + 1}) == "task 1: has a time beyond 26 days");
  CHECK(message_of({.start_ns = kMost + 1}) == "task 1: has a time beyond 26 days");
  CHECK(message_of({.delay_ns = kMost, .start_ns = kMost}) == "");
  CHECK(message_of({.flow = 1, .bytes = 0}) == "task 1: is a message of 0 bytes");
  CHECK(message_of({.flow = 2, .bytes = 1}) == "task 1: is a message of flow 2, there are 2");
  CHECK(message_of({.flow = 1, .bytes = 500}) == "");
  TaskGraph graph;
  graph.add({.flow = 0, .bytes = 1000});  // the other flow carries no message
  graph.add({});
  graph.add({});
  CHECK(check_tasks(graph, flows));
  graph.wait(2, 1);
  graph.wait(2, 0, true);
  graph.wait(1, 0);
  CHECK(check_tasks(graph, flows));
  TaskGraph unknown = graph;
  unknown.wait(3, 0);
  REQUIRE_FALSE(check_tasks(unknown, flows));
  CHECK(check_tasks(unknown, flows).error().message ==
        "task 3: is waited for or waits, but there are only 3");
  TaskGraph itself = graph;
  itself.wait(1, 1);
  REQUIRE_FALSE(check_tasks(itself, flows));
  CHECK(check_tasks(itself, flows).error().message ==
        "task 1: waits for itself, through other tasks");
  TaskGraph circle = graph;
  circle.wait(0, 2);  // through two, one of them acknowledged
  CHECK_FALSE(check_tasks(circle, flows));
}

TEST_CASE("the packets of messages: which are full, which may be sent, which have ended") {
  TaskGraph graph;
  graph.add({.flow = 1, .bytes = 2500});  // packets 0..2 of its flow
  graph.add({});
  graph.add({.flow = 0, .bytes = 1000});
  graph.add({.flow = 1, .bytes = 1});     // 3
  graph.add({.flow = 1, .bytes = 2000});  // 4, 5
  Messages messages(graph, 3, 1000);
  CHECK(messages.carries(0));
  CHECK(messages.carries(1));
  CHECK_FALSE(messages.carries(2));
  CHECK(messages.packets(0) == 1);
  CHECK(messages.packets(1) == 6);
  CHECK(messages.packets(2) == 0);
  const uint32_t payloads[] = {1000, 1000, 500, 1, 1000, 1000};
  for (uint32_t i = 0; i < 6; ++i) CHECK(messages.payload(1, i) == payloads[i]);
  CHECK(messages.payload(0, 0) == 1000);

  uint32_t task = 99;
  const uint32_t ends[] = {3, 4, 6}, order[] = {0, 3, 4};
  CHECK(messages.released(1) == 0);
  for (size_t i = 0; i < 3; ++i) {
    REQUIRE(messages.next_task(1, task));
    CHECK(task == order[i]);
    messages.release(1);
    CHECK(messages.released(1) == ends[i]);
  }
  CHECK_FALSE(messages.next_task(1, task));
  CHECK_FALSE(messages.next_task(2, task));
  CHECK(messages.released(0) == 0);

  CHECK_FALSE(messages.has_ends());
  messages.arrived(1, 2);  // the last packet of the first message is missing
  CHECK_FALSE(messages.has_ends());
  messages.arrived(1, 5);  // two at once
  messages.arrived(1, 5);  // nothing new
  messages.acknowledged(1, 3);
  CHECK(messages.has_ends());
  const std::vector<Messages::End> ended = messages.take_ends();
  REQUIRE(ended.size() == 3);
  CHECK((ended[0].task == 0 && !ended[0].acknowledged));
  CHECK((ended[1].task == 3 && !ended[1].acknowledged));
  CHECK((ended[2].task == 0 && ended[2].acknowledged));
  CHECK_FALSE(messages.has_ends());
  messages.arrived(1, 6);
  REQUIRE(messages.has_ends());
  CHECK(messages.take_ends()[0].task == 4);
}

TEST_CASE("tasks begin when all that they wait for has ended, in time and in any number") {
  TaskGraph graph;
  const uint32_t first = graph.add({.delay_ns = 5, .start_ns = 100});
  const uint32_t second = graph.add({.start_ns = 20});
  const uint32_t message = graph.add({.flow = 0, .bytes = 10, .delay_ns = 3});
  const uint32_t behind = graph.add({.flow = 0, .bytes = 10});  // free, but for the order
  const uint32_t both = graph.add({.delay_ns = 7});
  graph.wait(message, second);
  graph.wait(both, first);
  graph.wait(both, message, true);
  TaskRun run(graph, 1, 1000);
  CHECK(run.advance(0).empty());
  CHECK(run.next() == 20'000);  // ps
  CHECK(run.plan_event(0));
  CHECK_FALSE(run.plan_event(0));  // there is one already
  CHECK(run.advance(20'000).empty());
  CHECK(run.times()[second].arrived_ns == 20);
  CHECK(run.times()[second].acknowledged_ns == 20);
  CHECK(run.next() == 23'000);
  CHECK(run.plan_event(20'000));
  CHECK(run.advance(23'000) == std::vector<uint32_t>{0});
  CHECK(run.messages().released(0) == 2);
  CHECK(run.times()[message].started_ns == 23);
  CHECK(run.times()[behind].started_ns == 23);
  CHECK(run.next() == 105'000);
  run.messages().arrived(0, 1);
  CHECK(run.advance(50'000).empty());
  CHECK(run.times()[message].arrived_ns == 50);
  CHECK(run.times()[message].acknowledged_ns == -1);
  CHECK(run.advance(105'000).empty());
  CHECK(run.times()[first].started_ns == 100);
  CHECK(run.times()[first].arrived_ns == 105);
  CHECK(run.times()[both].started_ns == -1);  // the message is not acknowledged
  CHECK(run.next() == kNever);
  run.messages().acknowledged(0, 1);
  CHECK(run.advance(200'000).empty());
  CHECK(run.times()[both].started_ns == 200);
  CHECK(run.next() == 207'000);
  run.messages().arrived(0, 2);
  run.messages().acknowledged(0, 2);
  CHECK_FALSE(run.done());
  CHECK(run.advance(207'000).empty());
  CHECK(run.times()[both].arrived_ns == 207);
  CHECK(run.times()[behind].acknowledged_ns == 207);
  CHECK(run.done());
}

TEST_CASE("a chain of work without duration is done at once, however long it is") {
  TaskGraph graph;
  const uint32_t begin = graph.add({.delay_ns = 4});
  for (uint32_t i = 1; i <= 100'000; ++i) {
    graph.add({});
    graph.wait(i, i - 1, i % 2 == 0);
  }
  TaskRun run(graph, 0, 1000);
  CHECK(run.advance(0).empty());
  CHECK_FALSE(run.done());
  CHECK(run.advance(4000).empty());
  CHECK(run.done());
  CHECK(run.next() == kNever);
  CHECK(run.times()[begin].started_ns == 0);
  CHECK(run.times()[100'000].started_ns == 4);
  CHECK(run.times()[100'000].acknowledged_ns == 4);
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
