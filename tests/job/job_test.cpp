// SPDX-License-Identifier: BSD-3-Clause
// Collective schedules on the packet fabric: their times beside the flow model of the same schedule
// on the same network, their bytes, their bounds.
#include "lib/job/job.hpp"

#include <set>

#include "lib/collective/model/flow_model.hpp"
#include "lib/job/difference.hpp"
#include "lib/job/flow_level.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::job {
namespace {

using sim::flow::FlowSpec;
using sim::flow::RunResult;
using sim::flow::Scheme;
using sim::flow::TaskGraph;
using sim::scenario::JobSpec;

// What a test looks at after a run.
struct Ran {
  std::vector<FlowSpec> flows;
  TaskGraph tasks;
  std::vector<Job> jobs;
  std::vector<JobFigures> figures;
  std::vector<FlowLevel> levels;
  std::vector<Difference> differences;
  RunResult result;
};

JobSpec job_of(const std::string& operation, const std::string& algorithm, uint32_t ranks,
               uint64_t bytes) {
  JobSpec spec{.name = algorithm, .operation = operation, .algorithm = algorithm, .bytes = bytes};
  for (uint32_t host = 0; host < ranks; ++host) spec.hosts.push_back(host);
  return spec;
}

Ran run_jobs(const sim::fabric::Topology& topology, const std::string& controller,
             const std::vector<JobSpec>& specs, std::vector<FlowSpec> background = {}) {
  Ran ran{.flows = std::move(background)};
  for (const JobSpec& spec : specs) {
    Result<Job> job = add_job(spec, topology, ran.flows, ran.tasks);
    INFO((job ? std::string() : job.error().message));
    REQUIRE(job);
    CHECK(job->proof == "proven");
    ran.jobs.push_back(std::move(*job));
  }
  const Result<Scheme> scheme = sim::flow::make_scheme(controller, {}, topology);
  REQUIRE(scheme);
  Result<RunResult> result =
      sim::flow::run(topology, *scheme, ran.flows, {.sample_ns = 0, .tasks = &ran.tasks});
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  ran.result = std::move(*result);
  for (const Job& job : ran.jobs) {
    ran.figures.push_back(figures_of(job, ran.tasks, ran.result));
    ran.levels.push_back(flow_level(job, topology, *scheme));
    ran.differences.push_back(difference_of(job, ran.figures.back(), ran.levels.back(),
                                            {topology, *scheme, ran.flows, ran.result, 1}));
  }
  return ran;
}

TEST_CASE("a ring all-reduce over 16 hosts takes the time of the flow model") {
  const sim::fabric::Topology topology = sim::flow::star(16);
  for (const std::string controller : {"none", "dcqcn-hpccsim", "nscc"}) {
    const Ran ran = run_jobs(topology, controller, {job_of("all_reduce", "ring", 16, 4'000'000)});
    INFO(controller);
    CHECK(ran.figures[0].unfinished == 0);
    CHECK(ran.differences[0].ratio == Approx(1).epsilon(0.03));
    CHECK(ran.differences[0].reasons.empty());
    // 2 (n-1)/n of the buffer crosses each NIC; headers and acknowledgements take up to 14 %,
    // latency the rest.
    CHECK(ran.figures[0].bus_gbytes_per_s < 12.5);
    CHECK(ran.figures[0].bus_gbytes_per_s > 12.5 * 0.8);
    CHECK(ran.differences[0].slowest_utilisation > 0.85);
  }
}

TEST_CASE("every schedule runs to its end, sends its bytes, and takes no less than its bound") {
  const sim::fabric::Topology topology = sim::flow::leaf_spine(4);
  for (const std::string controller : {"hpcc", "nscc"})
    for (const collective::Algorithm& algorithm : collective::algorithms()) {
      if (collective::has_blocks(algorithm.collective) ||
          algorithm.collective >= Collective::exchange)
        continue;
      const std::string operation(name(algorithm.collective));
      INFO(controller << ": " << operation << " " << algorithm.name);
      const uint64_t bytes = 400'000;
      const Ran ran = run_jobs(topology, controller,
                               {job_of(operation, std::string(algorithm.name), 8, bytes)});
      REQUIRE(ran.figures[0].unfinished == 0);
      REQUIRE(ran.figures[0].step_ns.size() == 1);
      uint64_t sent = 0, put = 0;
      for (const FlowSpec& flow : ran.flows) sent += flow.bytes;
      for (const collective::Program& program : programs_of(algorithm, ran.jobs[0].shape))
        for (const collective::Step& step : program.steps)
          if (step.kind == collective::StepKind::put) put += step.source.count * 4;
      CHECK(sent == put);
      const collective::Topology network = network_of(ran.jobs[0].spec, topology, {});
      const collective::Bound bound =
          collective::lower_bound(algorithm.collective, double(ran.jobs[0].bytes), network, 0);
      CHECK(double(ran.figures[0].median_step_ns) >= bound.seconds * 1e9);
    }
}

TEST_CASE("a step with computation exposes what buckets do not hide") {
  const sim::fabric::Topology topology = sim::flow::star(8);
  JobSpec whole = job_of("all_reduce", "ring", 8, 4'000'000);
  whole.steps = 3;
  whole.compute_ns = 1'000'000;
  JobSpec parts = whole;
  parts.buckets = 4;
  const Ran alone = run_jobs(topology, "none", {whole});
  const Ran hidden = run_jobs(topology, "none", {parts});
  const JobFigures& a = alone.figures[0];
  const JobFigures& b = hidden.figures[0];
  REQUIRE(a.step_ns.size() == 3);
  CHECK(a.median_step_ns == a.exposed_ns + 1'000'000);
  CHECK(double(a.exposed_ns) == Approx(double(a.communication_ns)).epsilon(0.01));
  // Three of four parts are sent while the next is computed.
  CHECK(double(b.exposed_ns) < 0.35 * double(a.exposed_ns));
  CHECK(b.end_ns < a.end_ns);
  CHECK(hidden.differences[0].ratio == Approx(1).epsilon(0.05));
}

TEST_CASE("two jobs share a link, and the report says so") {
  // Hosts 0..3 and 4..7 at two leaves, one uplink of 100G: both rings cross it.
  const sim::fabric::Topology topology = sim::flow::leaf_spine(4, 50'000);
  JobSpec one = job_of("all_to_all", "direct", 8, 1'000'000);
  one.hosts = {0, 1, 4, 5};
  JobSpec two = one;
  two.hosts = {2, 3, 6, 7};
  const Ran ran = run_jobs(topology, "dcqcn-hpccsim", {one, two});
  CHECK(ran.figures[0].unfinished + ran.figures[1].unfinished == 0);
  std::string reasons;
  for (const Difference& difference : ran.differences) {
    CHECK(difference.ratio > 1.1);
    for (const std::string& reason : difference.reasons) reasons += reason + "\n";
  }
  INFO(reasons);
  CHECK(reasons.find("other traffic") != std::string::npos);
}

TEST_CASE("a rank of two NICs sends half of each message over each") {
  const sim::fabric::Topology topology = sim::flow::star(8);
  JobSpec spec = job_of("all_reduce", "ring", 8, 4'000'000);
  const Ran one = run_jobs(topology, "none", {job_of("all_reduce", "ring", 4, 4'000'000)});
  spec.nics = 2;
  const Ran two = run_jobs(topology, "none", {spec});
  CHECK(two.jobs[0].ranks() == 4);
  CHECK(double(two.figures[0].median_step_ns) ==
        Approx(double(one.figures[0].median_step_ns) / 2).epsilon(0.06));
  CHECK(two.differences[0].ratio == Approx(1).epsilon(0.05));
}

TEST_CASE("jobs that cannot be are refused with their place") {
  const sim::fabric::Topology topology = sim::flow::star(6);
  const auto message_of = [&](JobSpec spec) {
    spec.place = "x.toml:3: jobs";
    std::vector<FlowSpec> flows;
    TaskGraph tasks;
    const Result<Job> job = add_job(spec, topology, flows, tasks);
    REQUIRE(!job);
    return job.error().message;
  };
  JobSpec spec = job_of("all_reduce", "rings", 6, 1000);
  CHECK(message_of(spec).starts_with("x.toml:3: jobs: no algorithm 'rings' for all_reduce; there"));
  spec.algorithm = "halving_doubling";
  spec.operation = "all_reduces";
  CHECK(message_of(spec).find("no operation 'all_reduces'; there are: all_reduce") !=
        std::string::npos);
  spec.operation = "dispatch";
  CHECK(message_of(spec).find("a job has no dispatch") != std::string::npos);
  spec.operation = "all_reduce";
  spec.algorithm = "ring";
  spec.bytes = 3;
  CHECK(message_of(spec).find("less than an element") != std::string::npos);
  spec.bytes = 1000;
  spec.root = 6;
  CHECK(message_of(spec).find("root = 6 of 6 ranks") != std::string::npos);
}

}  // namespace
}  // namespace weft::job
