// SPDX-License-Identifier: BSD-3-Clause
// Tasks from issue to end.
#include "lib/collective/team/task_runner.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/collective/faults/watchdog.hpp"

namespace weft::collective {
namespace {

// Corrects the selector's prediction by the measured time.
void learn_from(const Task& task, Selector* selector) {
  if (selector == nullptr || task.predicted.ps <= 0 || task.error) return;
  const double ratio = static_cast<double>(task.took.ps) / static_cast<double>(task.predicted.ps);
  selector->correction().record(task.call.algorithm, bytes_of(task.call), ratio * task.learned);
}

}  // namespace

MaybeFailure TaskRunner::issue(const TaskPtr& task) {
  WEFT_DCHECK(!stopped_ && !task->done && !task->error);
  log().set_time(task->issued);
  task->preceding = history_.last();
  if (task->call.sequence != 0) history_.add(task->call);
  Lane& lane = lanes_.of(task->call);
  task->deadline = task->issued + task->limit;
  lane.push(task);
  // A peer may have canceled the call before this rank issues it.
  if (const Cancellation* const canceled = cancellations_.find(task->call.sequence)) {
    if (canceled->call != task->call)
      return report_mismatch(local(), canceled->by, canceled->call, task->call);
    if (cancel_task(lane, task, *canceled, task->issued)) end(task);
  }
  return run_by_priority(task->issued);
}

MaybeFailure TaskRunner::run_by_priority(Instant now) {
  cut_short_ = false;
  PriorityPass pass(now);
  for (Lane& lane : lanes_) {
    if (pass.must_yield(lane)) {
      cut_short_ = true;
      continue;
    }
    const bool had_tasks = !lane.tasks.empty();
    const uint64_t activity_before = lane.executor.activity();
    if (MaybeFailure failure = run_lane(lane)) return failure;
    pass.on_run(lane, had_tasks, activity_before);
  }
  return std::nullopt;
}

MaybeFailure TaskRunner::run_all() {
  cut_short_ = false;
  for (Lane& lane : lanes_)
    if (MaybeFailure failure = run_lane(lane)) return failure;
  return std::nullopt;
}

bool TaskRunner::should_run_idle() {
  constexpr uint32_t kIdleInterval = 8;  // turns
  return cut_short_ || !cancellations_.empty() || ++idle_turns_ % kIdleInterval == 0;
}

// Runs the front task as far as it goes, then the next. LaneSet behind the first do a few steps at
// a time, so that pieces which arrive meanwhile for a more urgent lane are handled soon.
MaybeFailure TaskRunner::run_lane(Lane& lane) {
  constexpr uint64_t kOneStep = 1;
  const bool most_urgent = &lane == &lanes_.first();
  Executor& executor = lane.executor;
  while (!lane.tasks.empty() && !stopped_) {
    Task& task = *lane.tasks.front();
    const TaskPtr kept = task.is_plain() ? nullptr : lane.tasks.front();
    if (task.error) {  // canceled
      if (!cancellations_.drained(task, lane)) return std::nullopt;
      lane.last_finished = task.call.sequence;
      end_front(lane);
      continue;
    }
    if (!executor.running()) {
      if (!cancellations_.allow_start(task, lanes_)) return std::nullopt;
      if (MaybeFailure failure = start(lane, task)) return failure;
      if (!executor.running()) continue;
    }
    const uint64_t activity_before = executor.activity();
    const bool finished = executor.advance(most_urgent ? UINT64_MAX : kOneStep);
    if (const std::optional<Mismatch>& mismatch = executor.mismatch())
      return report_mismatch(local(), mismatch->rank, mismatch->theirs, task.call);
    if (!finished) {
      cut_short_ |= !most_urgent && executor.activity() - activity_before >= kOneStep;
      return std::nullopt;
    }
    if (task.call.sequence != 0) {
      WEFT_DCHECK(task.call.sequence > lane.last_finished);
      lane.last_finished = task.call.sequence;
    }
    if (MaybeFailure failure = check_unconsumed(lane)) return failure;
    if (task.complete) task.complete(task);
    end_front(lane);
  }
  return std::nullopt;
}

// The executor does not run afterwards if the task has ended, was canceled, or a failure is
// returned.
MaybeFailure TaskRunner::start(Lane& lane, Task& task) {
  WEFT_DCHECK(!task.done && !task.error && &task == lane.tasks.front().get());
  task.started = lane.advanced_at = log().time();
  task.placed_at_start = lane.executor.placed();
  // A rank that canceled a part has canceled the whole call; that notice may be in flight.
  for (const TaskPtr& part : task.parts)
    if (part->error && part->error->code == Code::canceled)
      return cancel(task.call, part->canceled_by, part->cancel_reason);
  if (task.prepare) {
    const Result<void> prepared = task.prepare(task);
    if (!prepared)
      return FailureReport{.code = prepared.error().code,
                           .rank = connections_.rank,
                           .call = task.call,
                           .reason = prepared.error().message};
    if (task.error) {
      if (!stopped_ && task.error->code != Code::canceled) end_front(lane);
      return std::nullopt;
    }
  }
  start_execution(lane, task, processor_.known_oversubscribed(), log());
  return check_disconnected(connections_, lanes_);
}

// Pieces that arrived before their call was finished here, and that it did not expect.
MaybeFailure TaskRunner::check_unconsumed(const Lane& lane) const {
  for (const std::unique_ptr<Link>& link : connections_.links) {
    if (&lanes_.of(*link) != &lane) continue;
    if (!cancellations_.empty()) cancellations_.drop_pieces(*link);
    if (const PieceHeader* const piece = link->head())
      if (MaybeFailure failure = check_piece(local(), lane, link->peer(), piece->call))
        return failure;
  }
  return std::nullopt;
}

void TaskRunner::end_front(Lane& lane) {
  end(lane.tasks.front());
  lane.tasks.pop_front();
}

void TaskRunner::end(const TaskPtr& task) {
  WEFT_DCHECK(!task->done);
  record(*task, task->error.has_value());
  learn_from(*task, planning_.selector.get());
  task->done = true;
  if (task->complete) task->complete = nullptr;  // releases what it holds
  task->registered.clear();
  callbacks_.on_done(task);
}

void TaskRunner::record(Task& task, bool failed) {
  const Instant ended = base::Clock::process().now();
  log().set_time(ended);  // the start of the next task
  const bool ran = task.started >= task.issued;
  const uint64_t placed = lanes_.of(task.call).executor.placed();
  const Instant began = ran ? task.started : ended;
  task.took = ended - began;
  const std::string_view algorithm = task.algorithm != nullptr ? task.algorithm->name : "";
  trace_.add({task.call, algorithm, task.predicted, task.issued, began, ended, failed,
              ran ? placed - task.placed_at_start : 0});
}

MaybeFailure TaskRunner::cancel(const Call& call, uint32_t by, std::string_view reason) {
  if (stopped_ || cancellations_.contains(call.sequence)) return std::nullopt;
  const Cancellation& cancellation = cancellations_.add(call, by, reason, connections_.ranks);
  for (const std::unique_ptr<Link>& link : connections_.links) cancellations_.drop_pieces(*link);
  Lane& lane = lanes_.of(call);
  if (const TaskPtr task = lane.find(call.sequence))
    if (cancel_task(lane, task, cancellation, log().time())) end(task);
  send_cancel_notices();
  return run_all();
}

// An exchange has no sequence number that peers know it by: transfers are matched in order. As long
// as no piece of it was transferred, it can be removed as if it had not been called.
Result<void> TaskRunner::withdraw(const Task& task, std::string_view reason) {
  WEFT_DCHECK(task.call.sequence == 0 && !task.done);
  Lane& lane = lanes_.of(task.call);
  const auto found = std::find_if(lane.tasks.begin(), lane.tasks.end(),
                                  [&](const TaskPtr& each) { return each.get() == &task; });
  WEFT_CHECK(found != lane.tasks.end());
  const bool runs = found == lane.tasks.begin() && lane.executor.running();
  if (runs && !lane.executor.nothing_transferred())
    return Error{Code::bad_state,
                 "a part of this exchange has been sent or received, and the other rank counts on "
                 "the rest: let it end, or revoke the communicator"};
  if (runs) lane.executor.stop();
  const TaskPtr withdrawn = *found;
  withdrawn->error =
      error_of({.call = task.call, .by = connections_.rank, .reason = std::string(reason)});
  lane.remove(withdrawn);
  end(withdrawn);
  return {};
}

MaybeFailure TaskRunner::on_cancel_notice(const Link& link, const ControlMessage& notice) {
  WEFT_DCHECK(notice.kind == ControlKind::cancel);
  if (MaybeFailure failure = check_call(local(), link.peer(), notice.call)) return failure;
  const std::string_view reason(notice.text, strnlen(notice.text, sizeof notice.text));
  if (MaybeFailure failure = cancel(notice.call, notice.rank, reason)) return failure;
  if (stopped_ || !cancellations_.on_notice(notice.call.sequence, link.peer())) return std::nullopt;
  return run_all();
}

void TaskRunner::send_cancel_notices() {
  if (!stopped_) cancellations_.send_notices(lanes_, history_.last());
}

void TaskRunner::stop() {
  stopped_ = true;
  for (Lane& lane : lanes_) lane.executor.stop();
}

void TaskRunner::end_all(const Error& error) {
  WEFT_DCHECK(stopped_);
  for (Lane& lane : lanes_) {
    lane.work.reset();
    lane.packed.reset();
    for (const TaskPtr& task : lane.tasks) {
      task->error = error;
      end(task);
      task->work.reset();
    }
    lane.tasks.clear();
  }
}

}  // namespace weft::collective
