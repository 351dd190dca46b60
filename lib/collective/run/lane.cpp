// SPDX-License-Identifier: BSD-3-Clause
// Queues of tasks, and which of them may run.
#include "lib/collective/run/lane.hpp"

#include <algorithm>

namespace weft::collective {
namespace {

void add_regions(Execution& execution, const Registered& registered) {
  execution.regions.push_back(&registered.region);
  if (registered.remote_writable) execution.remote_writable.push_back(&registered.region);
}

}  // namespace

void Lane::push(const TaskPtr& task) {
  WEFT_DCHECK(!task->done && (task->call.sequence == 0 || !find(task->call.sequence)));
  WEFT_DCHECK(task->call.sequence == 0 || task->call.sequence > last_finished);
  earliest_deadline = std::min(earliest_deadline, task->deadline);
  tasks.push_back(task);
}

TaskPtr Lane::find(uint64_t sequence) const {
  const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const TaskPtr& task) {
    return task->call.sequence == sequence;
  });
  return found == tasks.end() ? nullptr : *found;
}

void Lane::remove(const TaskPtr& task) {
  const auto found = std::find(tasks.begin(), tasks.end(), task);
  WEFT_DCHECK(found != tasks.end());
  tasks.erase(found);
}

std::vector<uint32_t> classes_of(const CommunicatorOptions& options) {
  std::vector<uint32_t> classes = options.more_classes;
  classes.push_back(options.traffic_class);
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

LaneSet::LaneSet(const std::vector<uint32_t>& classes,
                 const std::vector<std::vector<Link*>>& links) {
  WEFT_CHECK(!classes.empty() && classes.size() <= links.size());
  for (size_t i = 0; i < classes.size(); ++i) lanes_.emplace_back(classes[i], links[i]);
}

bool LaneSet::has_class(uint32_t traffic_class) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& lane) { return lane.traffic_class == traffic_class; });
}

Lane& LaneSet::of(const Call& call) {
  for (Lane& lane : lanes_)
    if (lane.traffic_class == call.traffic_class) return lane;
  return lanes_.front();
}

bool LaneSet::have_tasks() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return !lane.tasks.empty(); });
}

Call LaneSet::current_call() const {
  for (const Lane& lane : lanes_)
    if (!lane.tasks.empty()) return lane.current_call();
  return {};
}

std::vector<uint32_t> LaneSet::awaited_ranks() const {
  std::vector<uint32_t> ranks;
  for (const Lane& lane : lanes_)
    for (const uint32_t rank : lane.executor.awaited_ranks()) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

uint64_t LaneSet::steps_done() const {
  uint64_t steps = 0;
  for (const Lane& lane : lanes_) steps += lane.executor.steps_done();
  return steps;
}

uint64_t LaneSet::placed() const {
  uint64_t pieces = 0;
  for (const Lane& lane : lanes_) pieces += lane.executor.placed();
  return pieces;
}

bool PriorityPass::must_yield(const Lane& lane) const {
  constexpr Duration kMaxYield = Duration::from_us(500);
  return !lane.tasks.empty() && now_ < urgent_until_ && now_ < lane.scheduled_at + kMaxYield;
}

void PriorityPass::on_run(Lane& lane, bool had_tasks, uint64_t activity_before) {
  constexpr Duration kAdvancing = Duration::from_us(100);  // since the last step
  lane.scheduled_at = now_;
  if (activity_before != lane.executor.activity()) lane.advanced_at = now_;
  if (had_tasks) urgent_until_ = std::max(urgent_until_, lane.advanced_at + kAdvancing);
}

void start_execution(Lane& lane, const Task& task, bool oversubscribed, StepLog& log) {
  WEFT_DCHECK(task.plan && !task.error && !lane.executor.running());
  Execution& execution = lane.executor.prepare();
  execution.plan = task.plan.get();
  execution.arithmetic = task.arithmetic;
  execution.call = task.call;
  execution.oversubscribed = oversubscribed;
  execution.log = &log;
  execution.spaces = {task.input, task.output, task.work ? task.work->memory : nullptr};
  if (task.work) add_regions(execution, *task.work);
  for (const RegisteredPtr& registered : task.registered)
    if (registered) add_regions(execution, *registered);
  lane.executor.start();
  WEFT_DCHECK(lane.executor.nothing_transferred());
  lane.timers.steps = lane.executor.steps_done() - 1;  // sets the timers in the next turn
}

}  // namespace weft::collective
