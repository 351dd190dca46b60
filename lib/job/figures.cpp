// SPDX-License-Identifier: BSD-3-Clause
// What a job did, from the times of its tasks.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/plan/names.hpp"
#include "lib/job/job.hpp"

namespace weft::job {
namespace {

using sim::flow::RunResult;
using sim::flow::TaskGraph;

// The last end of these tasks; -1 if one did not end.
int64_t last_end(const std::vector<uint32_t>& tasks, const RunResult& result) {
  int64_t end = 0;
  for (const uint32_t task : tasks) {
    if (result.tasks[task].arrived_ns < 0) return -1;
    end = std::max(end, result.tasks[task].arrived_ns);
  }
  return end;
}

// From the first message to the end of the last task.
int64_t duration(const Job::Operation& operation, const TaskGraph& tasks, const RunResult& result) {
  int64_t begin = INT64_MAX, end = 0;
  for (uint32_t task = operation.first; task < operation.last; ++task) {
    if (tasks.tasks[task].flow != sim::flow::kNoFlow)
      begin = std::min(begin, result.tasks[task].started_ns);
    end = std::max(end, result.tasks[task].arrived_ns);
  }
  return std::max<int64_t>(0, end - begin);
}

}  // namespace

JobFigures figures_of(const Job& job, const TaskGraph& tasks, const RunResult& result) {
  JobFigures figures;
  WEFT_CHECK(result.tasks.size() == tasks.tasks.size());
  for (uint32_t task = job.first_task; task < job.first_task + job.tasks; ++task)
    figures.unfinished += result.tasks[task].arrived_ns < 0;
  figures.begin_ns = figures.end_ns = job.spec.start_ns;
  for (const std::vector<uint32_t>& ends : job.step_ends) {
    const int64_t end = last_end(ends, result);
    if (end < 0) break;
    figures.step_ns.push_back(end - figures.end_ns);
    figures.end_ns = end;
  }
  if (figures.step_ns.empty()) return figures;
  std::vector<size_t> order(figures.step_ns.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return figures.step_ns[a] < figures.step_ns[b]; });
  const size_t median = order[order.size() / 2];
  figures.median_step_ns = figures.step_ns[median];
  for (const Job::Operation& operation : job.operations)
    if (operation.step == median) figures.communication_ns += duration(operation, tasks, result);
  figures.exposed_ns = std::max<int64_t>(0, figures.median_step_ns - job.spec.compute_ns);
  if (figures.communication_ns > 0)
    figures.algorithm_gbytes_per_s =
        static_cast<double>(job.bytes) / static_cast<double>(figures.communication_ns);
  figures.bus_gbytes_per_s =
      figures.algorithm_gbytes_per_s * collective::bus_factor(job.shape.collective, job.ranks());
  return figures;
}

}  // namespace weft::job
