// SPDX-License-Identifier: BSD-3-Clause
// The reasons for a job's time: each from the figures of a run that shows it and no other, at its
// bound, and about the links of the job only.
#include "lib/job/difference.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::job {
namespace {

using sim::flow::FlowSpec;
using sim::flow::PortUse;
using sim::flow::RunResult;
using sim::flow::Scheme;
using Strings = std::vector<std::string>;

// A ring of hosts 0..3 at one switch, node 5; host 4 is not of the job. Nothing has stood out so
// far, and a step took 1.5 times what it takes at flow level.
struct Run {
  sim::fabric::Topology topology = sim::flow::star(5);
  Scheme scheme;
  std::vector<FlowSpec> flows;
  sim::flow::TaskGraph tasks;
  Job job;
  FlowLevel level;
  JobFigures figures;
  RunResult result;

  explicit Run(const std::string& controller = "hpcc", uint32_t hosts = 4, uint32_t steps = 1,
               std::vector<FlowSpec> others = {})
      : flows(std::move(others)) {
    sim::scenario::JobSpec spec{.operation = "all_reduce", .algorithm = "ring", .bytes = 400'000};
    spec.steps = steps;
    for (uint32_t host = 0; host < hosts; ++host) spec.hosts.push_back(host);
    scheme = *sim::flow::make_scheme(controller, {}, topology);
    job = *add_job(spec, topology, flows, tasks);
    level = flow_level(job, topology, scheme);
    take(1.5);
    result.end_ns = 1'000'000;
    result.data_delivered = 1000;
    for (uint32_t port = 0; port < topology.port_count(); ++port)
      result.ports.push_back({.from = topology.from(port), .to = topology.to(port)});
  }
  void take(double times) {
    figures.median_step_ns = static_cast<int64_t>(level.step_s * 1e9 * times);
  }
  PortUse& port(uint32_t from, uint32_t to) {
    for (PortUse& port : result.ports)
      if (port.from == from && port.to == to) return port;
    FAIL("no port from " << from << " to " << to);
    return result.ports[0];
  }
  Difference difference() const {
    return difference_of(job, figures, level, {topology, scheme, flows, result, 1});
  }
  Strings reasons() const { return difference().reasons; }
};

TEST_CASE("without a step that ended, or within a tenth, a job's time has no reason") {
  Run run;
  run.port(5, 1).most_queue_bytes = 10'000'000;  // would be one
  CHECK(run.reasons().size() == 1);
  run.take(1.09);
  CHECK(run.difference().ratio == Approx(1.09).epsilon(1e-3));
  CHECK(run.reasons().empty());
  run.take(0.91);
  CHECK(run.reasons().empty());
  run.take(0.89);
  CHECK(run.reasons().size() == 1);
  run.figures.median_step_ns = 0;
  CHECK(run.difference().ratio == 0);
  CHECK(run.reasons().empty());
}

TEST_CASE("the busiest link is that of the job") {
  for (const std::string controller : {"hpcc", "nscc"}) {
    INFO(controller);
    Run run(controller);
    run.port(4, 5).utilisation = run.port(5, 4).utilisation = 0.9;  // of the other host
    run.port(2, 5).utilisation = 0.4;
    run.port(5, 3).utilisation = 0.5;
    const Difference found = run.difference();
    CHECK(run.topology.from(found.slowest_port) == 5);
    CHECK(run.topology.to(found.slowest_port) == 3);
    CHECK(found.slowest_utilisation == 0.5);
  }
}

TEST_CASE("a queue is a reason from two round trips on, and of an incast at a host") {
  for (const std::string controller : {"hpcc", "nscc"}) {
    INFO(controller);
    Run run(controller);
    run.port(5, 4).most_queue_bytes = 9'000'000;  // of the other host
    run.port(5, 0).most_queue_bytes = 1'000'000;
    run.port(2, 5).most_queue_bytes = 500'000;
    CHECK(run.reasons() == Strings{"incast queue: up to 1000 KB, 80.0 us, at link 5>0"});
    run.port(2, 5).most_queue_bytes = 2'000'000;
    CHECK(run.reasons() == Strings{"queue: up to 2000 KB, 160.0 us, at link 2>5"});
    // At 100 Gb/s 12.5 bytes leave in a ns.
    const auto bound = static_cast<uint64_t>(2 * run.scheme.base_rtt_ns * 12.5);
    run.port(5, 0).most_queue_bytes = 0;
    run.port(2, 5).most_queue_bytes = bound - 100;
    CHECK(run.reasons()[0].starts_with("controller: "));
    run.port(2, 5).most_queue_bytes = bound + 100;
    CHECK(run.reasons()[0].starts_with("queue: "));
  }
}

TEST_CASE("losses are a reason from one packet in a hundred on") {
  Run run;
  run.result.counters.trimmed = 2;
  run.result.counters.dropped = 3;
  run.result.counters.lost = 4;
  run.result.retransmitted = 10;
  CHECK(run.reasons()[0].starts_with("controller: "));
  run.result.retransmitted = 11;
  CHECK(run.reasons() == Strings{"losses: 11 packets retransmitted (1.1 %); 2 trimmed, 3 dropped, "
                                 "4 lost by links"});
  run.result.data_delivered = 0;  // every one of them
  CHECK(run.reasons()[0].starts_with("losses: 11 packets retransmitted (1100.0 %)"));
}

TEST_CASE("a pause is a reason from a fiftieth of the run on, and names its link") {
  Run run;
  run.result.paused_ns = 50'000;
  run.port(5, 1).paused_ns = 20'000;
  CHECK(run.reasons()[0].starts_with("controller: "));
  run.port(0, 5).paused_ns = 30'000;
  CHECK(run.reasons() == Strings{"PAUSE: link 0>5 was paused for 30.0 us (3 % of the run), all "
                                 "ports together 50.0 us"});
  run.port(5, 3).paused_ns = 600'000;
  CHECK(run.reasons()[0].starts_with("PAUSE: link 5>3 was paused for 600.0 us (60 % of the run)"));
}

TEST_CASE("bytes of others on a link of the job are a reason, with their share there") {
  for (const uint32_t steps : {1u, 3u}) {
    Run run("hpcc", 4, steps, {{.src = 4, .dst = 3, .bytes = 1}});  // before the job
    uint64_t own = 0;                                               // of the job to host 3
    for (const FlowSpec& flow : run.flows)
      if (flow.dst == 3 && flow.src != 4) own += flow.bytes;
    run.flows[0].bytes = own / 4;
    CHECK(run.reasons() ==
          Strings{"other traffic: 20 % of the bytes on link 5>3 are not this job's"});
    run.flows.push_back({.src = 4, .dst = 2, .bytes = 9 * own});  // and behind it
    CHECK(run.reasons() ==
          Strings{"other traffic: 90 % of the bytes on link 5>2 are not this job's"});
    run.flows.pop_back();
    run.flows[0].bytes = own / 60;
    CHECK(run.reasons()[0].starts_with("controller: "));
  }
}

TEST_CASE("if nothing stands out it is the controller, or what flow level assumes") {
  Run run;
  run.result.busiest_link = 0.8;
  CHECK(run.reasons() ==
        Strings{"controller: no queue, pause or loss stands out; " + run.scheme.name +
                " leaves links idle, the busiest is used 80 % of the time"});
  run.take(0.8);
  CHECK(run.reasons() == Strings{"flow level assumes acknowledgements against all data: here links "
                                 "carry more payload"});
}

// Hosts 0..3 at leaf 8, 4..7 at leaf 9, two spines: the job's connections from one leaf to the
// other choose one of two uplinks each.
struct Crossing : Run {
  explicit Crossing(const std::string& controller) : Run(controller) {
    topology = sim::flow::leaf_spine(4, 100'000);
    scheme = *sim::flow::make_scheme(controller, {}, topology);
    flows.clear();
    tasks = {};
    sim::scenario::JobSpec spec{.operation = "all_to_all", .algorithm = "direct", .bytes = 800'000};
    spec.steps = 2;
    for (uint32_t host = 0; host < 8; ++host) spec.hosts.push_back(host);
    job = *add_job(spec, topology, flows, tasks);
    level = flow_level(job, topology, scheme);
    take(1.5);
    result.ports.clear();
    for (uint32_t port = 0; port < topology.port_count(); ++port)
      result.ports.push_back({.from = topology.from(port), .to = topology.to(port)});
  }
  std::string reason(uint64_t seed) const {
    return difference_of(job, figures, level, {topology, scheme, flows, result, seed}).reasons[0];
  }
};

TEST_CASE("connections that share a link are a collision, where spraying has none") {
  Crossing run("hpcc");
  const double operation_s = run.level.operation_s;
  size_t collisions = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    run.level.operation_s = operation_s;
    const std::string reason = run.reason(seed);
    INFO(reason);
    if (!reason.starts_with("ECMP collision: ")) continue;
    ++collisions;
    // 16 connections cross; more than half of them share the link, and it takes longer for them.
    unsigned connections = 0;
    double share = 0, alone_us = 0;
    char link[16];
    REQUIRE(std::sscanf(reason.c_str(),
                        "ECMP collision: %u connections share link %15[0-9>], %lf times its even "
                        "share: %lf us alone",
                        &connections, link, &share, &alone_us) == 4);
    CHECK(connections > 8);
    CHECK(share == Approx(connections / 8.0).epsilon(0.01));
    // 100 KB of each connection in each of two steps at 100 Gb/s, with headers.
    CHECK(alone_us > connections * 8.0);
    CHECK(alone_us < connections * 10.0);
    // From a fiftieth more than at flow level on.
    run.level.operation_s = alone_us * 1e-6 / 1.01;
    CHECK(run.reason(seed).starts_with("controller: "));
    run.level.operation_s = alone_us * 1e-6 / 1.03;
    CHECK(run.reason(seed) == reason);
  }
  CHECK(collisions >= 4);
  CHECK(Crossing("nscc").reason(1).starts_with("controller: "));
}

}  // namespace
}  // namespace weft::job
