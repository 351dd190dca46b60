// SPDX-License-Identifier: BSD-3-Clause
// How long to spin, and when to sleep.
#include "lib/collective/team/waiting.hpp"

#include <poll.h>

#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

constexpr Duration kLeaveLimit = Duration::from_s(2);
constexpr Duration kLeaveNoticeLimit = Duration::from_ms(500);
constexpr int kMaxSleep_ms = 10;  // a keepalive or a deadline may be due

// The library's thread polls meanwhile, and makes the descriptor readable.
void sleep(Team& team) noexcept {
  const CompletionQueue& cq = team.connections().cq;
  if (team.arm()) {
    pollfd descriptor{cq.fd(), POLLIN, 0};
    ::poll(&descriptor, 1, kMaxSleep_ms);
  }
  cq.acknowledge();
}

template <class Condition>
void wait_for(Team& team, Duration limit, Condition condition) {
  const Instant deadline = base::wall_now() + limit;
  while (!condition() && base::wall_now() < deadline) {
    team.progress();
    if (!condition()) sleep(team);
  }
}

// Whether everything that was sent has been acknowledged, by all peers that still can.
bool flush_links(Team& team) {
  PeerConnections& connections = team.connections();
  if (!team.failure()) mark_exited(connections, connections.liveness.exited_peers());
  bool idle = true;
  for (const std::unique_ptr<Link>& link : connections.links) {
    if (link->disconnected || link->idle()) continue;
    link->flush_unsignaled();
    idle = false;
  }
  return idle;
}

}  // namespace

// Spinning is fastest while no other thread wants this processor. Otherwise each turn yields it:
// the other thread may be the rank that this one waits for.
void wait_until(Team& team, const Task& task, Instant until) {
  constexpr Duration kSpin = Duration::from_us(20), kYield = Duration::from_us(200);
  Instant idle_since = Instant::never();
  const LaneSet& lanes = team.runner().lanes();
  for (uint64_t steps = lanes.steps_done(); !task.done;) {
    team.progress();
    if (task.done) break;
    const Instant time = team.runner().log().time();  // of this turn
    if (time >= until) break;
    if (steps != lanes.steps_done())
      idle_since = Instant::never();
    else if (idle_since.is_never())
      idle_since = time;
    steps = lanes.steps_done();
    const Duration idle = idle_since.is_never() ? Duration() : time - idle_since;
    if (idle < kSpin && !team.processor().oversubscribed()) continue;
    idle < kYield ? team.processor().yield() : sleep(team);
  }
}

Result<void> wait(Team& team, const Task& task) {
  wait_until(team, task, Instant::never());
  team.runner().callbacks().run();
  if (task.error) return *task.error;
  return {};
}

void leave(Team& team) noexcept {
  TaskRunner& runner = team.runner();
  const auto busy = [&] { return runner.lanes().have_tasks(); };
  wait_for(team, kLeaveLimit, [&] {
    if (busy()) return false;
    return team.failure() || (runner.cancellations().all_sent(runner.lanes()) && flush_links(team));
  });
  if (busy())
    team.fail({.code = Code::bad_state,
               .rank = team.rank(),
               .call = runner.lanes().current_call(),
               .reason = "rank " + std::to_string(team.rank()) +
                         " has destroyed its communicator with calls in progress"});
  for (const std::unique_ptr<Link>& link : team.connections().links)
    link->send_control({.kind = ControlKind::leave});
  wait_for(team, kLeaveNoticeLimit, [&] { return !busy() && flush_links(team); });
}

}  // namespace weft::collective
