// SPDX-License-Identifier: BSD-3-Clause
// From a description to a schedule, its proof, and its flows and tasks.
#include "lib/job/job.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/arithmetic/arithmetic.hpp"
#include "lib/collective/model/forests.hpp"
#include "lib/collective/plan/choose.hpp"
#include "lib/collective/plan/names.hpp"
#include "lib/collective/plan/verify.hpp"
#include "lib/job/flow_level.hpp"
#include "lib/job/translate.hpp"

namespace weft::job {
namespace {

using collective::Algorithm;
using collective::Program;
using collective::Shape;
using sim::scenario::JobSpec;

constexpr uint64_t kMostTasks = 20'000'000;

Result<Job> resolve_names(const JobSpec& spec) {
  const Result<Collective> operation = collective::parse_collective(spec.operation);
  const Result<DataType> type = collective::parse_type(spec.type);
  const Result<ReduceOp> reduction = collective::parse_reduction(spec.reduction);
  if (!operation) return operation.error();
  if (!type) return type.error();
  if (!reduction) return reduction.error();
  if (collective::has_blocks(*operation) || *operation >= Collective::exchange)
    return Error{Code::not_supported, "a job has no " + spec.operation +
                                          ": it has all_gather, all_reduce, all_to_all, "
                                          "broadcast, reduce, reduce_scatter"};
  Job job{.spec = spec};
  const uint32_t ranks = job.ranks();
  const collective::Arithmetic arithmetic = collective::arithmetic_of(*type, *reduction);
  const bool reduces = collective::reduces(*operation);
  const uint64_t each =
      size_of(*type) * spec.buckets * (collective::is_per_rank(*operation) ? ranks : 1);
  job.element = static_cast<double>(arithmetic.element);
  job.accumulator = static_cast<double>(arithmetic.accumulator);
  job.shape = {.collective = *operation,
               .ranks = ranks,
               .root = spec.root,
               .count = spec.bytes / each,
               .exact = !reduces || arithmetic.exact,
               .average = reduces && *reduction == ReduceOp::avg};
  job.bytes = job.shape.count * each;
  if (job.shape.count == 0)
    return Error{Code::invalid_argument,
                 "bytes = " + std::to_string(spec.bytes) +
                     " is less than an element per bucket and block: " + std::to_string(each)};
  if (spec.root >= ranks)
    return Error{Code::invalid_argument, "root = " + std::to_string(spec.root) + " of " +
                                             std::to_string(ranks) + " ranks, from 0 on"};
  return job;
}

Result<void> choose_algorithm(Job& job) {
  Shape& shape = job.shape;
  if (job.spec.algorithm.empty()) {
    job.algorithm = &collective::choose(shape.collective, shape.ranks, job.bytes / job.spec.buckets,
                                        shape.exact, Numerics::run);
    return {};
  }
  const Result<const Algorithm*> named =
      collective::find_algorithm(job.spec.algorithm, shape.collective, shape.ranks);
  if (!named) return named.error();
  job.algorithm = *named;
  return {};
}

// For algorithms over forests: the trees of this fabric.
void add_forest(Job& job, const sim::fabric::Topology& topology) {
  if (!job.algorithm->traits.over_forest) return;
  const collective::Topology network = network_of(job.spec, topology, {});
  collective::Forests forests(network);
  job.shape.forest = forests.of(job.shape.collective, job.shape.root);
}

// The same schedule of fewer elements is what is proven: verify() needs memory for each.
Result<void> prove(Job& job) {
  Shape small = job.shape;
  if (small.ranks > collective::kMaxVerifiedRanks) {
    job.proof = "not proven: more than " + std::to_string(collective::kMaxVerifiedRanks) + " ranks";
    return {};
  }
  const uint64_t blocks = collective::is_per_rank(small.collective) ? small.ranks : 1;
  const uint64_t most = collective::kMaxVerifiedElements / (8 * uint64_t{small.ranks} * blocks);
  small.count = std::clamp<uint64_t>(16 * small.ranks / blocks, 1,
                                     std::min(std::max<uint64_t>(most, 1), small.count));
  small.piece = collective::model_piece(*job.algorithm, small.count);
  const Result<void> proof =
      collective::verify(small, collective::programs_of(*job.algorithm, small));
  if (!proof) return proof;
  job.proof = "proven";
  return {};
}

}  // namespace

Result<Job> add_job(const JobSpec& spec, const sim::fabric::Topology& topology,
                    std::vector<sim::flow::FlowSpec>& flows, sim::flow::TaskGraph& tasks) {
  const auto failed = [&](const Error& error) {
    return Error{error.code, spec.place + (spec.place.empty() ? "" : ": ") + error.message};
  };
  WEFT_CHECK(spec.nics > 0 && spec.hosts.size() >= 2 * uint64_t{spec.nics});
  Result<Job> job = resolve_names(spec);
  if (!job) return failed(job.error());
  Result<void> done = choose_algorithm(*job);
  if (done) add_forest(*job, topology);
  if (done) done = prove(*job);
  if (!done) return failed(done.error());
  job->shape.piece = collective::model_piece(*job->algorithm, job->shape.count);
  const std::vector<Program> programs = collective::programs_of(*job->algorithm, job->shape);
  uint64_t steps = 0;
  for (const Program& program : programs) steps += program.steps.size() * spec.nics;
  if (steps * spec.steps * spec.buckets > kMostTasks)
    return failed({Code::not_supported, std::to_string(steps * spec.steps * spec.buckets) +
                                            " tasks are more than 20 million: fewer steps, "
                                            "buckets or ranks"});
  translate(*job, programs, flows, tasks);
  return job;
}

}  // namespace weft::job
