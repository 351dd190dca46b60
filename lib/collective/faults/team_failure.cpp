// SPDX-License-Identifier: BSD-3-Clause
// Teams: how failures are noticed and told. A task that does not move makes its rank ping the ranks
// it waits for (their transport answers, whatever their program does) and tell them what it is
// doing, so that both death and a different call are found while nobody has data to send.
#include <algorithm>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/collective/team/team.hpp"

namespace weft::collective {
namespace {

constexpr Duration kGiveBackLimit = Duration::from_ms(40);
constexpr Duration kCloseLimit = Duration::from_ms(200);
constexpr Duration kLookPause = Duration::from_ms(2);
constexpr Duration kInvitationPause = Duration::from_ms(100);
constexpr Duration kLongestProbePause = Duration::from_s(10);

Instant now() { return base::Clock::process().now(); }

std::vector<uint32_t> ranks_of(const ControlMessage& circle) {
  std::vector<uint32_t> ranks(std::min<size_t>(circle.count, sizeof circle.text / 4));
  std::memcpy(ranks.data(), circle.text, ranks.size() * 4);
  return ranks;
}

std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

Call Team::current_call() const {
  for (const std::unique_ptr<Lane>& lane : lanes_)
    if (!lane->tasks.empty()) return lane->current_call();
  return {};
}

// Looks at the running task of a lane: has it moved, is it late.
void Team::watch(Lane& lane, Instant time) {
  if (!lane.executor.running()) {
    if (time > lane.due) check_limits(lane, time);
    return watch_draining(lane, time);
  }
  if (lane.moved != lane.executor.moved()) {
    lane.moved = lane.executor.moved();
    lane.probe_pause = kPingPause;
    lane.next_ping = lane.next_probe = time + kPingPause;
    lane.invites_until = time + kInvitationPause;
    lane.next_look = time + kLookPause;
    return;
  }
  if (time >= lane.next_look) {
    lane.next_look = time + kLookPause;
    check_lifelines();
    if (!lane.executor.running()) return;
  }
  if (time > lane.due) check_limits(lane, time);
  if (failure_) return;
  const Task& task = *lane.tasks.front();
  if (time < lane.next_ping) return;
  if (time >= lane.invites_until) {
    lane.executor.stop_waiting_for_invitations();
    idle_turns_ = kLookNow;
  }
  for (const uint32_t rank : lane.executor.awaited()) {
    if (time >= lane.next_probe)
      lane.links[rank]->send_control({.kind = ControlKind::probe,
                                      .count = static_cast<uint16_t>(!lane.executor.gives(rank)),
                                      .call = task.call});
    else
      lane.links[rank]->ping();
  }
  lane.next_ping = time + kPingPause;
  if (time < lane.next_probe) return;
  lane.next_probe = time + lane.probe_pause;
  lane.probe_pause = std::min(lane.probe_pause * 2, kLongestProbePause);
}

// The first call whose limit is over ends it all, also one that waits for its turn. What was
// canceled has its own end.
void Team::check_limits(Lane& lane, Instant time) {
  lane.due = Instant::never();
  for (const TaskPtr& task : lane.tasks) {
    if (task->error) continue;
    if (time > task->deadline) return fail_late(lane, *task);
    lane.due = std::min(lane.due, task->deadline);
  }
}

void Team::fail_late(const Lane& lane, const Task& task) {
  const Task& first = *lane.tasks.front();
  const std::vector<uint32_t> awaited = lane.executor.awaited();
  std::string text = "not finished after " + std::to_string(task.limit.ms()) + " ms, ";
  if (&task != &first) text += "it waits for its turn behind " + describe(first.call) + ", ";
  text += awaited.empty() ? "waiting for nobody" : "waiting for " + ranks_text(awaited);
  fail({.code = Code::timed_out, .rank = awaited.empty() ? mesh_.rank : awaited.front()}, task.call,
       text, -1);
}

void Team::handle_message(Link& link, const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::credit:
    case ControlKind::invite:  // the link keeps them
      return;
    case ControlKind::probe:
      check_call(link.peer(), message.call);
      check_circle(link, message);
      return answer_probe(link, message.call);
    case ControlKind::circle:
      return follow_circle(link, message, ranks_of(message));
    case ControlKind::finished:
      return check_finished(link, message.call);
    case ControlKind::cancel:
      return handle_cancel(link, message);
    case ControlKind::leave:
      run_tasks();  // what has arrived before may not be what we wait for
      link.gone = link.ended = true;
      return check_leavers();
    case ControlKind::abort: {
      run_tasks();  // what has arrived before counts
      const std::string reason(message.text, strnlen(message.text, sizeof message.text));
      return fail({.code = message.code, .rank = message.rank}, message.call, reason, link.peer());
    }
  }
}

// We wait for the peer in an exchange, and it waits for us after all that it had to give: if it is
// in a collective that we have not done, or in an exchange and has taken all of ours, neither will
// ever go on. If we wait for others, they may wait for it.
void Team::check_circle(Link& link, const ControlMessage& probe) {
  run_tasks();
  const uint32_t peer = link.peer();
  const Lane& lane = lane_of(link);
  if (!lane.executor.running() || lane.current_call().sequence != 0) return;
  if (is_canceled(probe.call.sequence)) return;  // it will hear of that
  if (lane.executor.expects(peer) && probe.call.sequence > lane.finished)
    return fail_mismatch(peer, probe.call, lane.current_call());
  if (probe.call.sequence == 0 && probe.count == 1) follow_circle(link, probe, {peer});
}

// Who waits for us in a call in which we have nothing more to give waits in vain: we say so. So
// does who has not heard that all is over: what was to tell it found too many messages under way.
void Team::answer_probe(Link& link, const Call& theirs) {
  if (failure_) return static_cast<void>(link.send_control(farewell_));
  if (theirs.sequence == 0 || theirs.sequence > sequence_ || is_canceled(theirs.sequence)) return;
  const Lane& lane = lane_of(link);
  for (const TaskPtr& task : lane.tasks) {
    const bool runs = task == lane.tasks.front() && lane.executor.running();
    if (task->call.sequence == theirs.sequence && (!runs || lane.executor.gives(link.peer())))
      return;
  }
  link.send_control({.kind = ControlKind::finished, .call = theirs});
}

// The peer has given us all it has in our call, and what it sent in it has arrived before it said
// so.
void Team::check_finished(const Link& link, const Call& theirs) {
  run_tasks();
  const Lane& lane = lane_of(link);
  if (!lane.executor.running() || theirs.sequence == 0 || lane.current_call() != theirs) return;
  if (lane.executor.expects(link.peer())) fail_mismatch(link.peer(), theirs, theirs);
}

// A rank that has left sends no more; what it sent before has arrived before. Nobody will
// acknowledge what we gave it.
void Team::check_leavers() {
  for (const std::unique_ptr<Link>& link : mesh_.links) {
    if (!link->gone) continue;
    if (lane_of(*link).executor.needs(link->peer()))
      return fail({.code = Code::peer_failed, .rank = link->peer()}, lane_of(*link).current_call(),
                  link->why_gone, -1);
    if (link->lends()) link->abort_link();
  }
}

// Processes that have ended may have sent all that we need: what has come is counted first.
void Team::check_lifelines() {
  const std::vector<uint32_t> ended = mesh_.liveness.ended();
  if (ended.empty()) return;
  Completion completions[32];
  for (size_t n = 1; n > 0;) {
    n = mesh_.cq.poll(completions);
    handle({completions, n});
  }
  note_ended(ended);
  run_tasks();
  check_leavers();
}

void Team::look_for_ended() { note_ended(mesh_.liveness.ended()); }

bool Team::has_ended(uint32_t rank) const {
  const Link* const link = mesh_.lanes.front()[rank];
  return link != nullptr && link->ended;
}

void Team::note_ended(const std::vector<uint32_t>& ended) {
  for (const std::unique_ptr<Link>& link : mesh_.links) {
    if (std::find(ended.begin(), ended.end(), link->peer()) == ended.end()) continue;
    link->ended = true;
    if (link->gone) continue;
    link->gone = true;
    link->why_gone = "its process has ended";
  }
}

// Another rank says that it is at `theirs`: have we, at that number, called the same?
void Team::check_call(uint32_t rank, const Call& theirs) {
  if (theirs.sequence == 0) return;
  const Call& ours = history_[theirs.sequence % kHistory];
  if (ours.sequence == theirs.sequence && ours != theirs) fail_mismatch(rank, theirs, ours);
}

// A piece of a call that is done here: its sender gave more than we expected.
void Team::check_arrived(const Link& link, const Call& theirs) {
  const uint32_t rank = link.peer();
  if (is_canceled(theirs.sequence)) return;
  if (theirs.sequence != 0 && theirs.sequence <= lane_of(link).finished)
    fail_mismatch(rank, theirs, theirs);
  else
    check_call(rank, theirs);
}

// The same for pieces that had arrived before the call was done.
void Team::check_left_over(const Lane& lane) {
  for (const std::unique_ptr<Link>& link : mesh_.links) {
    if (&lane_of(*link) != &lane) continue;
    if (!canceled_.empty()) drop_canceled(*link);
    if (const PieceHeader* const piece = link->head()) check_arrived(*link, piece->call);
  }
}

void Team::revoke(std::string_view reason) {
  std::string text = "rank " + std::to_string(mesh_.rank) + " has revoked the communicator";
  if (!reason.empty()) text += ": " + std::string(reason);
  fail({.code = Code::bad_state, .rank = mesh_.rank}, current_call(), text, -1);
}

// `ours` is what we are doing; what we did at the same number says more.
void Team::fail_mismatch(uint32_t rank, const Call& theirs, Call ours) {
  const Call& then = history_[theirs.sequence % kHistory];
  if (theirs.sequence != 0 && then.sequence == theirs.sequence) ours = then;
  const std::string they = "rank " + std::to_string(rank), we = std::to_string(mesh_.rank);
  const bool same = describe(theirs) == describe(ours);
  fail({.code = Code::mismatch, .rank = rank}, ours,
       same ? they + " and rank " + we + " called " + describe(ours) + " with different " +
                  (ours.sequence == 0 ? "sizes" : "counts")
            : they + " called " + describe(theirs) + ", rank " + we + " called " + describe(ours),
       -1);
}

// Ends everything. `reporter` is the rank that told us, or -1 if we found out ourselves. All others
// are told in either case: who hears from us first that we leave shall know why.
void Team::fail(Failure failure, const Call& call, const std::string& reason, int64_t reporter) {
  if (failure_) return;
  const std::string who = "rank " + std::to_string(failure.rank);
  switch (failure.code) {
    case Code::peer_failed:
      failure.text = "PEER_FAILED: " + who + " failed during " + describe(call) + ": " + reason;
      break;
    case Code::mismatch:
      failure.text = "MISMATCH: " + reason;
      break;
    default:
      failure.text = describe(call) + ": " + reason;
  }
  if (reporter >= 0) failure.text += " (reported by rank " + std::to_string(reporter) + ")";
  failure.collective = call.collective;
  failure.sequence = call.sequence;
  failure_ = failure;
  awaited_at_failure_ = awaited();
  failure_traced_ = busy();
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->executor.stop();
  farewell_ = {.kind = ControlKind::abort, .code = failure.code, .rank = failure.rank};
  farewell_.call = call;
  std::memcpy(farewell_.text, reason.data(), std::min(reason.size(), sizeof farewell_.text));
  for (const std::unique_ptr<Link>& link : mesh_.links)
    if (link->peer() != failure.rank || failure.code != Code::peer_failed)
      link->tell_end(farewell_);
    else
      link->abort_link();
  write_dump();  // may take long: what others have to answer in is counted from its end
  give_back_ = now() + kGiveBackLimit;
  close_ = now() + kCloseLimit;
  end_failed_tasks();
}

// Who still writes into our buffers, and finds them closed before it has heard why, would take us
// for dead.
bool Team::all_told() {
  if (!places()) return true;
  bool all = true;
  for (const std::unique_ptr<Link>& link : mesh_.links) all &= link->tell_end(farewell_);
  return all;
}

// The tasks of a failed team are over when nobody reads their buffers any more: pieces may still be
// on their way to ranks that live, and their owner may free the buffers as soon as he is told.
void Team::end_failed_tasks() {
  if (!failure_ || !busy()) return;
  const bool late = now() > give_back_;
  for (const std::unique_ptr<Link>& link : mesh_.links) {
    if (!link->lends()) continue;
    if (!late && !link->gone) return;
    link->abort_link();
  }
  if (!all_told() && now() < close_) return;
  // Nor may anybody write into them any more.
  memory_.close();
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    lane->work.reset();
    lane->packed.reset();
    for (const TaskPtr& task : lane->tasks) {
      task->error = Error{failure_->code, failure_->text};
      end(task);
      task->work.reset();
    }
    lane->tasks.clear();
  }
}

}  // namespace weft::collective
