// SPDX-License-Identifier: BSD-3-Clause
// Timers, keepalives and probes.
#include "lib/collective/faults/watchdog.hpp"

#include <algorithm>

namespace weft::collective {
namespace {

constexpr Duration kLivenessInterval = Duration::from_ms(2);
constexpr Duration kRendezvousTimeout = Duration::from_ms(100);
constexpr Duration kMaxProbeInterval = Duration::from_s(10);

FailureReport report_timeout(const Lane& lane, const Task& task, uint32_t rank) {
  WEFT_DCHECK(!lane.tasks.empty() && !task.done);
  const Task& running = *lane.tasks.front();
  const std::vector<uint32_t> awaited = lane.executor.awaited_ranks();
  std::string text = "not finished after " + std::to_string(task.limit.ms()) + " ms, ";
  if (&task != &running) text += "queued behind " + describe(running.call) + ", ";
  text += awaited.empty() ? "waiting for no rank" : "waiting for " + ranks_text(awaited);
  return {.code = Code::timed_out,
          .rank = awaited.empty() ? rank : awaited.front(),
          .call = task.call,
          .reason = text};
}

}  // namespace

bool has_advanced(Lane& lane, Instant now) {
  WEFT_DCHECK(lane.executor.running());
  ProgressTimers& timers = lane.timers;
  if (timers.steps == lane.executor.steps_done()) return false;
  timers.steps = lane.executor.steps_done();
  timers.probe_interval = kKeepaliveInterval;
  timers.next_keepalive = timers.next_probe = now + kKeepaliveInterval;
  timers.rendezvous_deadline = now + kRendezvousTimeout;
  timers.next_liveness_check = now + kLivenessInterval;
  return true;
}

bool liveness_check_due(Lane& lane, Instant now) {
  if (now < lane.timers.next_liveness_check) return false;
  lane.timers.next_liveness_check = now + kLivenessInterval;
  return true;
}

bool solicit_awaited_ranks(Lane& lane, Instant now) {
  WEFT_DCHECK(lane.executor.running() && !lane.tasks.empty());
  ProgressTimers& timers = lane.timers;
  if (now < timers.next_keepalive) return false;
  const bool without_rendezvous = now >= timers.rendezvous_deadline;
  if (without_rendezvous) lane.executor.stop_waiting_for_advertisements();
  for (const uint32_t rank : lane.executor.awaited_ranks()) {
    WEFT_DCHECK(lane.links[rank] != nullptr);
    if (now >= timers.next_probe)
      lane.links[rank]->send_control(
          {.kind = ControlKind::probe,
           .count = static_cast<uint16_t>(!lane.executor.has_sends_for(rank)),
           .call = lane.current_call()});
    else
      lane.links[rank]->send_keepalive();
  }
  WEFT_DCHECK(timers.probe_interval >= kKeepaliveInterval);
  timers.next_keepalive = now + kKeepaliveInterval;
  if (now < timers.next_probe) return without_rendezvous;
  timers.next_probe = now + timers.probe_interval;
  timers.probe_interval = std::min(timers.probe_interval * 2, kMaxProbeInterval);
  return without_rendezvous;
}

std::optional<FailureReport> check_deadlines(Lane& lane, Instant now, uint32_t rank) {
  if (now <= lane.earliest_deadline) return std::nullopt;
  lane.earliest_deadline = Instant::never();
  for (const TaskPtr& task : lane.tasks) {
    if (task->error) continue;
    if (now > task->deadline) return report_timeout(lane, *task, rank);
    lane.earliest_deadline = std::min(lane.earliest_deadline, task->deadline);
  }
  return std::nullopt;
}

std::optional<FailureReport> check_drain_deadline(const Lane& lane, Instant now, uint32_t rank) {
  if (lane.tasks.empty() || now <= lane.tasks.front()->deadline) return std::nullopt;
  const Task& task = *lane.tasks.front();
  const bool advertised = !task.advertised_ranks.empty();
  return FailureReport{
      .code = Code::timed_out,
      .rank = advertised ? task.advertised_ranks.front() : rank,
      .call = task.call,
      .reason = "canceled, but its memory is still in use after " +
                std::to_string(task.limit.ms()) + " ms" +
                (advertised ? ": " + ranks_text(task.advertised_ranks) +
                                  " may still write to it and did not acknowledge the cancellation"
                            : "")};
}

std::optional<FailureReport> check_disconnected(const PeerConnections& connections,
                                                const LaneSet& lanes) {
  for (const std::unique_ptr<Link>& link : connections.links) {
    if (!link->disconnected) continue;
    const Lane& lane = lanes.of(*link);
    WEFT_DCHECK(lane.links[link->peer()] == link.get());
    if (lane.executor.depends_on(link->peer()))
      return FailureReport{.code = Code::peer_failed,
                           .rank = link->peer(),
                           .call = lane.current_call(),
                           .reason = link->disconnect_reason};
    if (link->reads_caller_memory()) link->abort_link();
  }
  return std::nullopt;
}

}  // namespace weft::collective
