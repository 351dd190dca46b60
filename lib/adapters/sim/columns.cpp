// SPDX-License-Identifier: BSD-3-Clause
// See columns.hpp. A new column is one line here.
#include "lib/adapters/sim/columns.hpp"

#include <array>
#include <type_traits>

namespace weft::c {

using sim::flow::FlowResult;
using sim::flow::PortUse;
using sim::flow::RunResult;
using sim::flow::Series;

template <class Rows, class Value>
void SimColumns::add(const char* name, const Rows& rows, Value value) {
  using Given = decltype(value(*std::begin(rows)));
  using Kept = std::conditional_t<std::is_floating_point_v<Given>, double, int64_t>;
  std::vector<Kept> column;
  for (const auto& row : rows) column.push_back(static_cast<Kept>(value(row)));
  const size_t count = column.size();
  const void* const data = column.data();  // stays when the vector is moved
  values_.emplace_back(std::move(column));
  constexpr weft_sim_type kType = std::is_same_v<Kept, double> ? WEFT_SIM_DOUBLE : WEFT_SIM_INT64;
  columns_.push_back({name, kType, count, data});
}

SimColumns::SimColumns(const sim::scenario::Scenario& scenario, const RunResult& result) {
  const std::array<const RunResult*, 1> one = {&result};
  add("run.digest", one, [](auto* r) { return r->digest; });
  add("run.end_ns", one, [](auto* r) { return r->end_ns; });
  add("run.events", one, [](auto* r) { return r->events; });
  add("run.delivered", one, [](auto* r) { return r->data_delivered; });
  add("run.retransmitted", one, [](auto* r) { return r->retransmitted; });
  add("run.marked", one, [](auto* r) { return r->counters.marked; });
  add("run.trimmed", one, [](auto* r) { return r->counters.trimmed; });
  add("run.dropped", one, [](auto* r) { return r->counters.dropped; });
  add("run.lost", one, [](auto* r) { return r->counters.lost; });
  add("run.pauses", one, [](auto* r) { return r->counters.pauses; });
  add("run.paused_ns", one, [](auto* r) { return r->paused_ns; });
  add("run.deadlocked", one, [](auto* r) { return r->deadlocked; });
  add("run.stalled", one, [](auto* r) { return r->stalled; });

  using sim::flow::FlowSpec;
  add("flows.start_ns", result.flows, [](const FlowResult& f) { return f.started_ns; });
  add("flows.source", scenario.flows, [](const FlowSpec& f) { return f.src; });
  add("flows.destination", scenario.flows, [](const FlowSpec& f) { return f.dst; });
  add("flows.bytes", scenario.flows, [](const FlowSpec& f) { return f.bytes; });
  add("flows.fct_ns", result.flows, [](const FlowResult& f) { return f.fct_ns; });
  add("flows.ideal_ns", result.flows, [](const FlowResult& f) { return f.ideal_ns; });

  const std::vector<Series::Point>& points = result.series.points();
  add("queue.time_ns", points, [](const Series::Point& p) { return p.at_ns; });
  add("queue.longest_bytes", points, [](const Series::Point& p) { return p.longest_queue; });
  static constexpr const char* kRates[] = {
      "queue.rate0_gbps", "queue.rate1_gbps", "queue.rate2_gbps", "queue.rate3_gbps",
      "queue.rate4_gbps", "queue.rate5_gbps", "queue.rate6_gbps", "queue.rate7_gbps"};
  static_assert(std::size(kRates) == Series::kFlows);
  for (size_t i = 0; i < Series::kFlows && i < scenario.flows.size(); ++i)
    add(kRates[i], points, [i](const Series::Point& p) { return p.gbps[i]; });

  add("ports.source", result.ports, [](const PortUse& p) { return p.from; });
  add("ports.destination", result.ports, [](const PortUse& p) { return p.to; });
  add("ports.utilisation", result.ports, [](const PortUse& p) { return p.utilisation; });
  add("ports.sent_bytes", result.ports, [](const PortUse& p) { return p.sent_bytes; });
  add("ports.most_queue_bytes", result.ports, [](const PortUse& p) { return p.most_queue_bytes; });
  add("ports.paused_ns", result.ports, [](const PortUse& p) { return p.paused_ns; });
}

}  // namespace weft::c
