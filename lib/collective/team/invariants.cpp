// SPDX-License-Identifier: BSD-3-Clause
// What is true between two turns of a team. Without dense checks (NDEBUG) it does nothing.
#include "lib/base/check.hpp"
#include "lib/collective/team/team.hpp"

namespace weft::collective {
namespace {

void check_task(const Task& task, const Lane& lane, const TaskRunner& runner) {
  WEFT_DCHECK(!task.done);
  WEFT_DCHECK(task.call.sequence == 0 || task.call.sequence > lane.last_finished);
  WEFT_DCHECK(task.call.sequence <= runner.history().last());
  WEFT_DCHECK(task.preceding < runner.history().next());
  WEFT_DCHECK(task.call.sequence == 0 || task.preceding < task.call.sequence);
  const bool front = &task == lane.tasks.front().get();
  WEFT_DCHECK(task.advertised_ranks.empty() || (front && task.error));
  if (task.error) WEFT_DCHECK(task.error->code == Code::canceled);
  if (!task.error) WEFT_DCHECK(lane.earliest_deadline <= task.deadline);
}

void check_lane(const Lane& lane, const Team& team) {
  const TaskRunner& runner = team.runner();
  lane.executor.check_invariants();
  WEFT_DCHECK(lane.links.size() == team.ranks());
  WEFT_DCHECK(lane.last_finished <= runner.history().last());
  if (lane.executor.running()) {
    WEFT_DCHECK(!team.failure() && !lane.tasks.empty());
    WEFT_DCHECK(!lane.tasks.front()->error && lane.tasks.front()->plan);
  }
  uint64_t previous = 0;
  for (const TaskPtr& task : lane.tasks) {
    if (!team.failure()) check_task(*task, lane, runner);
    if (task->call.sequence == 0) continue;
    WEFT_DCHECK(task->call.sequence > previous);
    previous = task->call.sequence;
  }
}

}  // namespace

void check_invariants(const Team& team) {
  const PeerConnections& connections = team.connections();
  for (size_t i = 0; i < connections.links.size(); ++i) {
    const Link& link = *connections.links[i];
    link.check_invariants();
    WEFT_DCHECK(link.peer() < team.ranks() && link.peer() != team.rank());
    WEFT_DCHECK(connections.lanes[link.lane][link.peer()] == &link);
    WEFT_DCHECK(!link.peer_exited || link.disconnected);
  }
  for (const Lane& lane : team.runner().lanes()) check_lane(lane, team);
  team.runner().cancellations().check_invariants(team.ranks());
}

}  // namespace weft::collective
