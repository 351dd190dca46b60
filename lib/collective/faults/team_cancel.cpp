// SPDX-License-Identifier: BSD-3-Clause
// Teams: one call is taken back, and the communicator goes on. The rank that cancels tells all
// others, and every rank that hears of it for the first time tells all others, too: "this call is
// taken back, and I give you nothing of it any more". Messages keep their place behind the pieces
// sent before them, so when all have said so, nothing of the call can come any more, and until then
// pieces of it are thrown away. Each rank ends the call when it is neither read nor written from
// outside: when its own puts are done, and those whom it invited to put pieces into its memory
// have said that they will not.
#include <algorithm>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/collective/team/team.hpp"

namespace weft::collective {
namespace {

Error error_of(const Cancellation& cancellation) {
  std::string text = "CANCELED: " + describe(cancellation.call) + " was canceled by rank " +
                     std::to_string(cancellation.by);
  if (!cancellation.reason.empty()) text += ": " + cancellation.reason;
  return {Code::canceled, text};
}

}  // namespace

Result<void> Team::cancel(const Task& task, std::string_view reason) {
  if (failure_ || task.done || task.error) return {};
  trace_.steps().at(base::Clock::process().now());  // what begins now
  if (task.call.sequence == 0) return withdraw(task, reason);
  for (const TaskPtr& part : task.parts)
    if (!part->done) begin_cancel(part->call, mesh_.rank, std::string(reason));
  begin_cancel(task.call, mesh_.rank, std::string(reason));
  return {};
}

// An exchange has no number that others would know it by: it is what comes next. As long as nothing
// of it has come or gone, it is as if it had never been called.
Result<void> Team::withdraw(const Task& task, std::string_view reason) {
  Lane& lane = lane_of(task.call);
  std::deque<TaskPtr>& tasks = lane.tasks;
  const auto found = std::find_if(tasks.begin(), tasks.end(),
                                  [&](const TaskPtr& each) { return each.get() == &task; });
  const bool runs = found == tasks.begin() && lane.executor.running();
  if (runs && !lane.executor.untouched())
    return Error{Code::bad_state,
                 "a part of this exchange has been sent or received, and the other rank counts on "
                 "the rest: let it end, or revoke the communicator"};
  if (runs) lane.executor.stop();
  const TaskPtr withdrawn = *found;
  withdrawn->error = error_of({.call = task.call, .by = mesh_.rank, .reason = std::string(reason)});
  tasks.erase(found);
  end(withdrawn);
  run_tasks();  // what waited behind it
  return {};
}

void Team::begin_cancel(const Call& call, uint32_t by, const std::string& reason) {
  if (failure_ || is_canceled(call.sequence)) return;
  const Cancellation& cancellation = canceled_[call.sequence] = {
      call, by, reason, std::vector<bool>(mesh_.ranks), std::vector<bool>(mesh_.ranks)};
  for (const std::unique_ptr<Link>& link : mesh_.links) drop_canceled(*link);
  std::deque<TaskPtr>& tasks = lane_of(call).tasks;
  const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const TaskPtr& task) {
    return task->call.sequence == call.sequence;
  });
  if (found != tasks.end()) take_out(TaskPtr(*found), cancellation);
  spread_cancellations();
  run_tasks();
}

// A task that waits for its turn is out of the queue at once, unless parts of its call are under
// way; the first one when it is drained.
void Team::take_out(const TaskPtr& task, const Cancellation& cancellation) {
  Lane& lane = lane_of(task->call);
  task->error = error_of(cancellation);
  task->deadline = trace_.steps().time() + task->limit;  // for all to let go of it
  task->canceled_by = cancellation.by;
  task->why_canceled = cancellation.reason;
  if (task == lane.tasks.front()) {
    task->invited = lane.executor.invited();
    lane.executor.stop();
    return;
  }
  for (const TaskPtr& part : task->parts)
    if (!part->done) return;
  end(task);
  lane.tasks.erase(std::find(lane.tasks.begin(), lane.tasks.end(), task));
}

// Whoever canceled a part has canceled the whole, which we may not have heard yet.
bool Team::part_canceled(const Task& task) {
  for (const TaskPtr& part : task.parts)
    if (part->error && part->error->code == Code::canceled)
      return begin_cancel(task.call, part->canceled_by, part->why_canceled), true;
  return false;
}

void Team::handle_cancel(const Link& link, const ControlMessage& message) {
  check_call(link.peer(), message.call);
  begin_cancel(message.call, message.rank,
               std::string(message.text, strnlen(message.text, sizeof message.text)));
  const auto found = canceled_.find(message.call.sequence);
  if (failure_ || found == canceled_.end()) return;
  found->second.heard[link.peer()] = true;
  run_tasks();
}

bool Team::drained(const Task& task) {
  const auto found = canceled_.find(task.call.sequence);
  for (const Link* link : lane_of(task.call).links) {
    if (link == nullptr) continue;
    if (link->lends()) return false;
    const bool invited =
        std::find(task.invited.begin(), task.invited.end(), link->peer()) != task.invited.end();
    const bool waits = found != canceled_.end() && !found->second.heard[link->peer()];
    if (invited && !link->gone && waits) return false;
  }
  return true;
}

void Team::drop_canceled(Link& link) {
  for (const PieceHeader* piece = link.head(); piece != nullptr; piece = link.head()) {
    if (!is_canceled(piece->call.sequence)) return;
    link.consume();
  }
}

// Tells those who have not been told, and forgets what is over: everybody has spoken, and no call
// from before it has pieces that those of this one may lie behind.
void Team::spread_cancellations() {
  for (auto next = canceled_.begin(); next != canceled_.end() && !failure_;) {
    Cancellation& cancellation = next->second;
    ControlMessage message{.kind = ControlKind::cancel, .rank = cancellation.by};
    message.call = cancellation.call;
    std::memcpy(message.text, cancellation.reason.data(),
                std::min(cancellation.reason.size(), sizeof message.text));
    const Lane& lane = lane_of(cancellation.call);
    bool over = sequence_ >= next->first &&
                (lane.tasks.empty() || lane.tasks.front()->after >= next->first);
    for (Link* link : lane.links) {
      if (link == nullptr) continue;
      const uint32_t peer = link->peer();
      if (!cancellation.told[peer]) cancellation.told[peer] = link->send_control(message);
      over &= link->gone || (cancellation.told[peer] && cancellation.heard[peer]);
    }
    next = over ? canceled_.erase(next) : std::next(next);
  }
}

// What was canceled before this task. Who has not heard of that would take the first piece of this
// one for a piece of the other.
bool Team::told_before(const Task& task) {
  for (const auto& [sequence, cancellation] : canceled_) {
    if (sequence > task.after) break;
    for (const Link* link : lane_of(cancellation.call).links) {
      if (link == nullptr || link->gone) continue;
      if (!cancellation.told[link->peer()] || !link->messages_first()) return false;
    }
  }
  return true;
}

bool Team::cancellations_told() {
  for (const auto& [sequence, cancellation] : canceled_)
    for (const Link* link : lane_of(cancellation.call).links)
      if (link != nullptr && !link->gone && !cancellation.told[link->peer()]) return false;
  return true;
}

// A canceled call that does not end: somebody who may write to its memory does not answer.
void Team::watch_draining(Lane& lane, Instant time) {
  if (failure_ || lane.tasks.empty() || !lane.tasks.front()->error) return;
  if (time >= lane.next_look) {
    lane.next_look = time + Duration::from_ms(2);
    check_lifelines();
  }
  if (failure_ || lane.tasks.empty() || time <= lane.tasks.front()->deadline) return;
  const Task& task = *lane.tasks.front();
  fail({.code = Code::timed_out, .rank = task.invited.empty() ? mesh_.rank : task.invited.front()},
       task.call,
       "canceled, but not everybody has let go of it after " + std::to_string(task.limit.ms()) +
           " ms",
       -1);
}

}  // namespace weft::collective
