// SPDX-License-Identifier: BSD-3-Clause
// See difference.hpp. Each reason is looked for on its own, in the order in which they cause each
// other: a collision of paths fills a queue, a queue pauses, a controller slows down.
#include "lib/job/difference.hpp"

#include <algorithm>
#include <cstdio>

#include "lib/base/check.hpp"
#include "lib/sim/run/flow_set.hpp"

namespace weft::job {
namespace {

using sim::flow::PortUse;

constexpr double kNotable = 0.02;  // a share of the time, or of the packets

class Reasons {
 public:
  Reasons(const Job& job, const JobFigures& figures, const FlowLevel& level, const Compared& run)
      : job_(job), figures_(figures), level_(level), run_(run), loads_(run.result.ports.size()) {
    find_loads();
  }

  std::vector<std::string> all() {
    add_collision();
    add_other_traffic();
    add_queue();
    add_losses();
    add_pauses();
    if (list_.empty()) add_controller();
    return list_;
  }

  // The port is on a path of the job, or, if packets are sprayed, on one that it may take.
  bool uses(uint32_t port) const {
    return run_.scheme.sprayed() ? level_.port_bytes[port] > 0 : loads_[port].own > 0;
  }

 private:
  struct Load {
    double own = 0;  // payload of one operation
    double all = 0;  // payload of the whole run, of all flows
    double own_in_all = 0;
    uint32_t connections = 0;  // of the job
  };

  void find_loads() {
    if (run_.scheme.sprayed()) return;
    sim::fabric::RouteTable routes(run_.topology, run_.seed);
    if (!sim::flow::choose_paths(run_.flows, routes)) return;  // it was possible for the run
    const double operations = static_cast<double>(job_.operations.size());
    for (uint32_t flow = 0; flow < run_.flows.size(); ++flow) {
      const bool own = flow - job_.first_flow < job_.flows;
      const auto bytes = static_cast<double>(run_.flows[flow].bytes);
      for (const uint32_t port : routes.forward_path(flow)) {
        loads_[port].all += bytes;
        if (!own) continue;
        loads_[port].own += bytes / operations;
        loads_[port].own_in_all += bytes;
        ++loads_[port].connections;
      }
    }
  }

  double run_ns() const { return std::max(1.0, static_cast<double>(run_.result.end_ns)); }
  std::string link(uint32_t port) const {
    return std::to_string(run_.topology.from(port)) + ">" + std::to_string(run_.topology.to(port));
  }
  template <class... Values>
  void add(const char* format, Values... values) {
    char text[240];
    std::snprintf(text, sizeof text, format, values...);
    list_.push_back(text);
  }
  double seconds(uint32_t port, double payload) const {
    return payload * 8 / (run_.topology.mbps(port) * 1e6 * wire_of(run_.scheme).payload_share);
  }

  // A link that carries more than its even share of the job, and needs longer for that than the
  // operation takes at flow level.
  void add_collision() {
    uint32_t worst = 0;
    for (uint32_t port = 0; port < loads_.size(); ++port)
      if (seconds(port, loads_[port].own) > seconds(worst, loads_[worst].own)) worst = port;
    const double alone_s = seconds(worst, loads_[worst].own);
    if (alone_s < level_.operation_s * (1 + kNotable) || level_.port_bytes[worst] <= 0) return;
    add("ECMP collision: %u connections share link %s, %.2f times its even share: %.1f us alone",
        loads_[worst].connections, link(worst).c_str(),
        loads_[worst].own / level_.port_bytes[worst], alone_s * 1e6);
  }

  void add_other_traffic() {
    double most = 0;
    uint32_t worst = 0;
    for (uint32_t port = 0; port < loads_.size(); ++port) {
      if (loads_[port].own <= 0) continue;
      const double others = (loads_[port].all - loads_[port].own_in_all) / loads_[port].all;
      if (others > most) worst = port;
      most = std::max(most, others);
    }
    if (most > kNotable)
      add("other traffic: %.0f %% of the bytes on link %s are not this job's", most * 100,
          link(worst).c_str());
  }

  // The longest queue, by the time that it takes to drain.
  void add_queue() {
    uint32_t worst = 0;
    const auto drain_us = [&](uint32_t port) {
      return double(run_.result.ports[port].most_queue_bytes) * 8 / run_.topology.mbps(port);
    };
    for (uint32_t port = 0; port < run_.result.ports.size(); ++port)
      if (uses(port) && drain_us(port) > drain_us(worst)) worst = port;
    const bool last = run_.topology.is_host(run_.topology.to(worst));
    const double rounds = 2 * run_.scheme.base_rtt_ns / 1e3;
    if (drain_us(worst) > rounds)
      add("%s: up to %.0f KB, %.1f us, at link %s", last ? "incast queue" : "queue",
          double(run_.result.ports[worst].most_queue_bytes) / 1e3, drain_us(worst),
          link(worst).c_str());
  }

  void add_losses() {
    const sim::fabric::Counters& c = run_.result.counters;
    const auto delivered = double(std::max<uint64_t>(1, run_.result.data_delivered));
    const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
    if (double(run_.result.retransmitted) / delivered > kNotable / 2)
      add("losses: %llu packets retransmitted (%.1f %%); %llu trimmed, %llu dropped, %llu lost by "
          "links",
          number(run_.result.retransmitted), double(run_.result.retransmitted) / delivered * 100,
          number(c.trimmed), number(c.dropped), number(c.lost));
  }

  void add_pauses() {
    uint32_t worst = 0;
    const std::vector<PortUse>& ports = run_.result.ports;
    for (uint32_t port = 0; port < ports.size(); ++port)
      if (ports[port].paused_ns > ports[worst].paused_ns) worst = port;
    const double share = double(ports[worst].paused_ns) / run_ns();
    if (share > kNotable)
      add("PAUSE: link %s was paused for %.1f us (%.0f %% of the run), all ports together %.1f us",
          link(worst).c_str(), double(ports[worst].paused_ns) / 1e3, share * 100,
          double(run_.result.paused_ns) / 1e3);
  }

  void add_controller() {
    const double faster = level_.step_s * 1e9 / double(figures_.median_step_ns);
    if (faster > 1)
      list_.push_back(
          "flow level assumes acknowledgements against all data: here links carry more payload");
    else
      add("controller: no queue, pause or loss stands out; %s leaves links idle, the busiest is "
          "used %.0f %% of the time",
          run_.scheme.name.c_str(), run_.result.busiest_link * 100);
  }

  const Job& job_;
  const JobFigures& figures_;
  const FlowLevel& level_;
  const Compared& run_;
  std::vector<Load> loads_;  // by port
  std::vector<std::string> list_;
};

}  // namespace

Difference difference_of(const Job& job, const JobFigures& figures, const FlowLevel& level,
                         const Compared& run) {
  WEFT_CHECK(level.port_bytes.size() == run.result.ports.size());
  Difference difference;
  Reasons reasons(job, figures, level, run);
  for (uint32_t port = 0; port < run.result.ports.size(); ++port)
    if (reasons.uses(port) && run.result.ports[port].utilisation > difference.slowest_utilisation) {
      difference.slowest_port = port;
      difference.slowest_utilisation = run.result.ports[port].utilisation;
    }
  if (figures.median_step_ns == 0) return difference;
  difference.ratio = double(figures.median_step_ns) / (level.step_s * 1e9);
  if (difference.ratio > 1 + kSameTime || difference.ratio < 1 - kSameTime)
    difference.reasons = reasons.all();
  return difference;
}

}  // namespace weft::job
