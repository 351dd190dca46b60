// SPDX-License-Identifier: BSD-3-Clause
// `weft_sim explain FLOW`: runs the scenario once more, which is the same to the event, and records
// the life of one flow.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/sim/command_run.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;
using sim::flow::FlowReport;

// What is said of one flow under one controller.
struct Life {
  const Comparison& comparison;
  const Outcome& outcome;
  uint32_t number;
  const sim::flow::FlowSpec& spec;
  const sim::flow::FlowResult& flow;
  const FlowReport& report;

  const sim::fabric::Topology& topology() const { return comparison.scenario.topology; }
  // Mean time in queues of a packet that arrived, over all hops.
  double queued_ns() const {
    double sum = 0;
    for (const FlowReport::Hop& hop : report.hops)
      if (hop.packets > 0)
        sum += hop.queued_ns / double(std::max<uint64_t>(1, report.data_arrived));
    return sum;
  }
  std::vector<uint32_t> messages() const {
    std::vector<uint32_t> tasks;
    for (uint32_t i = 0; comparison.tasks && i < comparison.tasks->tasks.size(); ++i)
      if (comparison.tasks->tasks[i].flow == number) tasks.push_back(i);
    return tasks;
  }
};

double us(double ns) { return ns / 1e3; }

void print_hops(const Life& life) {
  std::printf("  %-14s %8s %9s %12s %12s %9s %9s %12s\n", "hop", "Gb/s", "packets", "mean wait us",
              "most us", "dropped", "trimmed", "paused us");
  for (const FlowReport::Hop& hop : life.report.hops) {
    const std::string link = std::to_string(life.topology().from(hop.port)) + ">" +
                             std::to_string(life.topology().to(hop.port));
    const double mean = hop.packets > 0 ? hop.queued_ns / double(hop.packets) : 0;
    std::printf("  %-14s %8g %9llu %12.3f %12.3f %9llu %9llu %12.3f\n", link.c_str(),
                life.topology().mbps(hop.port) / 1e3, static_cast<unsigned long long>(hop.packets),
                us(mean), us(hop.most_ns), static_cast<unsigned long long>(hop.dropped),
                static_cast<unsigned long long>(hop.trimmed), us(double(hop.paused_ns)));
  }
}

// The rate at which its bytes arrived, as a row of bars.
void print_rate(const Life& life) {
  const FlowReport& report = life.report;
  if (report.arrived_bytes.empty()) return;
  const auto gbps = [&](uint64_t bytes) { return double(bytes) * 8 / double(report.interval_ns); };
  const uint64_t most = *std::max_element(report.arrived_bytes.begin(), report.arrived_bytes.end());
  std::printf("  arrival rate from %.3f us on, a column per %.3f us, highest %.2f Gb/s:\n  |",
              us(double(report.begin_ns)), us(double(report.interval_ns)), gbps(most));
  constexpr const char* kLevels[] = {" ", ".", ":", "-", "=", "+", "*", "%", "@"};
  for (const uint64_t bytes : report.arrived_bytes)
    std::printf("%s", kLevels[most > 0 ? (bytes * 8 + most - 1) / most : 0]);
  std::printf("|\n");
}

void print_life(const Life& life) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  const FlowReport& report = life.report;
  std::printf("%s: flow %u, host %u to host %u, %llu B, class %u\n", life.outcome.label.c_str(),
              life.number, life.spec.src, life.spec.dst, number(life.spec.bytes),
              life.spec.data_class);
  std::printf("  starts at %.3f us", us(double(life.flow.started_ns)));
  if (life.flow.fct_ns < 0)
    std::printf(", unfinished at the end, %.3f us", us(double(life.outcome.result.end_ns)));
  else
    std::printf(", ends after %.3f us: %.2f times the %.3f us that it takes alone",
                us(double(life.flow.fct_ns)),
                std::max(1.0, double(life.flow.fct_ns) / double(life.flow.ideal_ns)),
                us(double(life.flow.ideal_ns)));
  std::printf(
      "\n  data arrives from %.3f to %.3f us: %llu packets, first switch to destination "
      "%.3f / %.3f / %.3f us (least, mean, most), of these %.3f us in queues\n",
      us(double(report.first_ns)), us(double(report.last_ns)), number(report.data_arrived),
      us(report.least_delay_ns), us(report.mean_delay_ns), us(report.most_delay_ns),
      us(life.queued_ns()));
  std::printf(
      "  %llu marked, %llu retransmitted; at the source: %llu acknowledgements, %llu NAKs, "
      "%llu CNPs, %llu credit grants\n",
      number(report.marked), number(report.retransmitted), number(report.acks), number(report.naks),
      number(report.cnps), number(report.grants));
  print_hops(life);
  print_rate(life);
  const std::vector<uint32_t> messages = life.messages();
  if (messages.size() < 2) return;
  std::printf("  %zu messages:\n  %8s %12s %14s %14s %14s\n", messages.size(), "task", "bytes",
              "started us", "arrived us", "acknowledged");
  constexpr size_t kShown = 20;
  for (size_t i = 0; i < std::min(messages.size(), kShown); ++i) {
    const sim::flow::TaskTimes& times = life.outcome.result.tasks[messages[i]];
    std::printf("  %8u %12llu %14.3f %14.3f %14.3f\n", messages[i],
                number(life.comparison.tasks->tasks[messages[i]].bytes),
                us(double(times.started_ns)), us(double(times.arrived_ns)),
                us(double(times.acknowledged_ns)));
  }
  if (messages.size() > kShown)
    std::printf("  and %zu more: --json has all\n", messages.size() - kShown);
}

Json life_as_json(const Life& life) {
  const FlowReport& report = life.report;
  Json hops = Json::array(), messages = Json::array();
  for (const FlowReport::Hop& hop : report.hops)
    hops.push_back({{"from", life.topology().from(hop.port)},
                    {"to", life.topology().to(hop.port)},
                    {"gbps", life.topology().mbps(hop.port) / 1e3},
                    {"packets", hop.packets},
                    {"mean_wait_ns", hop.packets > 0 ? hop.queued_ns / double(hop.packets) : 0},
                    {"most_wait_ns", hop.most_ns},
                    {"dropped", hop.dropped},
                    {"trimmed", hop.trimmed},
                    {"paused_ns", hop.paused_ns}});
  for (const uint32_t task : life.messages()) {
    const sim::flow::TaskTimes& times = life.outcome.result.tasks[task];
    messages.push_back({{"task", task},
                        {"bytes", life.comparison.tasks->tasks[task].bytes},
                        {"started_ns", times.started_ns},
                        {"arrived_ns", times.arrived_ns},
                        {"acknowledged_ns", times.acknowledged_ns}});
  }
  return {{"controller", life.outcome.label},
          {"seed", life.comparison.seed},
          {"flow", life.number},
          {"src", life.spec.src},
          {"dst", life.spec.dst},
          {"bytes", life.spec.bytes},
          {"class", life.spec.data_class},
          {"started_ns", life.flow.started_ns},
          {"fct_ns", life.flow.fct_ns < 0 ? Json(nullptr) : Json(life.flow.fct_ns)},
          {"ideal_ns", life.flow.ideal_ns},
          {"first_arrival_ns", report.first_ns},
          {"last_arrival_ns", report.last_ns},
          {"data_arrived", report.data_arrived},
          {"delay_ns",
           {{"least", report.least_delay_ns},
            {"mean", report.mean_delay_ns},
            {"most", report.most_delay_ns},
            {"queued_mean", life.queued_ns()}}},
          {"marked", report.marked},
          {"retransmitted", report.retransmitted},
          {"acks", report.acks},
          {"naks", report.naks},
          {"cnps", report.cnps},
          {"grants", report.grants},
          {"hops", hops},
          {"arrivals",
           {{"begin_ns", report.begin_ns},
            {"interval_ns", report.interval_ns},
            {"bytes", report.arrived_bytes}}},
          {"messages", messages}};
}

}  // namespace

int command_explain(const RunCommand& command, uint32_t flow, bool json) {
  const auto fail = [](const Error& error) {
    std::fprintf(stderr, "weft_sim explain: %s\n", error.message.c_str());
    return 2;
  };
  Result<std::vector<Comparison>> comparisons = plan(command);
  if (!comparisons) return fail(comparisons.error());
  for (Comparison& comparison : *comparisons) comparison.options.life_of = flow;
  Result<void> ran = run_batch(*comparisons, command.jobs != 0 ? command.jobs : 1);
  if (!ran) return fail(ran.error());
  Json list = Json::array();
  for (const Comparison& comparison : *comparisons)
    for (const Outcome& outcome : comparison.outcomes) {
      const Life life{comparison,
                      outcome,
                      flow,
                      comparison.scenario.flows[flow],
                      outcome.result.flows[flow],
                      *outcome.result.life};
      if (json)
        list.push_back(life_as_json(life));
      else
        print_life(life);
    }
  if (json) std::printf("%s\n", list.dump(2).c_str());
  return 0;
}

}  // namespace weft::bench
