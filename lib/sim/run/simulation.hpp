// SPDX-License-Identifier: BSD-3-Clause
// One run of `flow` fidelity: a network, a scheme and a list of flows, from virtual time 0 until
// all flows are done or a limit. Single-threaded and deterministic: the same input gives the same
// result, from every compiler. Runs share only what is const, so they may run in parallel.
//
//   Result<Topology> network = read_topology("links.csv");
//   Result<Scheme> scheme = make_scheme("hpcc", Parameters(), *network);
//   Result<RunResult> result = run(*network, *scheme, flows, {.seed = 1});
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/sim/fabric/link_changes.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/sim/run/flow_life.hpp"
#include "lib/sim/run/queue_samples.hpp"
#include "lib/sim/run/series.hpp"
#include "lib/sim/scheme/scheme.hpp"
#include "lib/sim/tasks/task_graph.hpp"

namespace weft::sim::flow {

// Read by another thread during the run.
struct Progress {
  std::atomic<uint64_t> delivered{0};  // data packets
  std::atomic<int64_t> now_ns{0};
  std::atomic<bool> stop{false};  // set it to end the run early
};

struct RunOptions {
  uint64_t seed = 1;
  int64_t until_ns = kNever;  // the run ends here; flows that are not done stay unfinished
  int64_t sample_ns = 100;    // 0: no queue samples
  int64_t queue_until_ns = kNever;
  int64_t queue_window_ns = 100000;
  std::vector<uint32_t> series_flows;  // rates over time of these, at most 8; empty: the first
  std::string pcap;                    // a capture of what arrives at hosts; empty: none
  std::vector<uint32_t> pcap_flows;    // empty: of all flows
  std::vector<fabric::LinkChange> link_changes;
  int64_t detection_ns = 100'000;  // until routes avoid a link that went down
  Progress* progress = nullptr;
  const TaskGraph* tasks = nullptr;  // of jobs: flows with messages start by these
  std::optional<uint32_t> life_of;   // a flow whose life is recorded
};

struct FlowResult {
  int64_t ideal_ns = 0;
  int64_t started_ns = 0;   // of a flow with messages: when the first was sent
  int64_t fct_ns = -1;      // from started_ns; -1: unfinished
  uint32_t bottleneck = 0;  // busiest port of its path; of a sprayed flow, the receiver's
};

// One direction of a link, over the whole run.
struct PortUse {
  uint32_t from = 0;  // nodes
  uint32_t to = 0;
  double utilisation = 0;  // share of the time that the port was sending
  uint64_t sent_bytes = 0;
  uint32_t most_queue_bytes = 0;
  int64_t paused_ns = 0;
};

struct RunResult {
  std::vector<FlowResult> flows;  // as in the list
  std::vector<TaskTimes> tasks;   // of RunOptions::tasks
  int64_t end_ns = 0;
  uint64_t events = 0;
  uint64_t data_delivered = 0;
  uint64_t retransmitted = 0;
  uint64_t in_flight = 0;  // packets that were in the network at the end
  fabric::Counters counters;
  int64_t paused_ns = 0;    // of all ports together
  double busiest_link = 0;  // utilisation of the busiest port
  std::vector<PortUse> ports;
  QueueSamples queues;
  Series series;                   // empty without sample_ns
  std::optional<FlowReport> life;  // of RunOptions::life_of
  bool deadlocked = false;  // PFC deadlock: no event left, packets queued behind paused ports
  std::string deadlock;     // the cycle of nodes
  bool stalled = false;     // flows without a route retransmit, nothing is delivered
  uint64_t digest = 0;      // of every flow's end and every counter
};

// Fails on flows that do not fit the network (the message names the flow's row).
Result<RunResult> run(const fabric::Topology& topology, const Scheme& scheme,
                      std::span<const FlowSpec> flows, const RunOptions& options);

// By port number, in a run that has ended at `end` ps.
std::vector<PortUse> port_use(const fabric::Topology& topology, const fabric::Fabric& fabric,
                              int64_t end);

uint32_t busiest_port(std::span<const uint32_t> path, std::span<const PortUse> ports);

// Fails on a flow that does not fit the network or the scheme.
Result<void> check_flow(const FlowSpec& spec, const fabric::Topology& topology,
                        const Scheme& scheme);

// The flows whose rates the series has: those asked for, else the first.
std::vector<uint32_t> series_flows(const RunOptions& options, size_t flows);
// Fails on a number of series_flows or pcap_flows that is no flow.
Result<void> check_outputs(const RunOptions& options, size_t flows);

// The ideal FCT (HPCC simulator): unloaded RTT and the whole flow with headers, without telemetry,
// at the slowest link of the path.
int64_t ideal_fct_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                     uint64_t bytes, uint32_t payload, uint32_t header);
// That of a scheme that sprays (UEC simulator): every byte on the wire, and the round trip of the
// last packet, exactly.
int64_t ideal_sprayed_fct_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                             uint64_t bytes, const Scheme& scheme);
// Of flow number `flow`, as its scheme has it, in ns.
int64_t ideal_ns(const fabric::Topology& topology, const Scheme& scheme,
                 const fabric::RouteTable& routes, uint32_t flow, const FlowSpec& spec);

}  // namespace weft::sim::flow
