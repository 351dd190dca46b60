// SPDX-License-Identifier: BSD-3-Clause
// Teams: ranks that wait in exchanges to receive from each other in a circle. Who hears that a rank
// waits for it, while it waits for others itself, tells them so (Chandy, Misra, Haas, 1983: "edge
// chasing" for processes that need all they wait for). A message that comes back to the rank it
// began with has gone round a circle.
//
// No circle is seen that is none: each rank on the way has nothing more to give to the one before
// it in what it does, and has sent nothing that that one had not taken when it said so. Then that
// one still waits, and all before it do, or have taken back what they waited in: so only the first,
// which knows whether it does, says that there is a circle. Where one of those between has taken it
// back and has sent since, that is said of a circle that never was.
#include <algorithm>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/collective/team/team.hpp"

namespace weft::collective {
namespace {

constexpr Duration kFollowPause = Duration::from_ms(50);
constexpr size_t kLongest = sizeof(ControlMessage::text) / sizeof(uint32_t);

std::string text_of(const std::vector<uint32_t>& ranks) {
  std::string text = "rank " + std::to_string(ranks[0]);
  for (size_t i = 1; i < ranks.size(); ++i)
    text += (i + 1 == ranks.size() ? " and rank " : ", rank ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

// The peer, which has taken so many pieces of ours, gets no more before we have what we wait for.
bool Team::waits_in_vain(const Link& link, uint64_t consumed) {
  const Lane& lane = lane_of(link);
  return lane.executor.running() && lane.current_call().sequence == 0 &&
         consumed == link.posted() && !lane.executor.gives(link.peer());
}

// The ranks of the path wait for the next one each, the last for us.
void Team::follow_circle(Link& link, const ControlMessage& waiting, std::vector<uint32_t> path) {
  run_tasks();
  const bool sound = !path.empty() && path.back() == link.peer() &&
                     *std::max_element(path.begin(), path.end()) < mesh_.ranks;
  if (!sound || !waits_in_vain(link, waiting.consumed)) return;
  const Lane& lane = lane_of(link);
  if (path[0] == mesh_.rank && path.size() > 1 && lane.executor.expects(path[1]))
    return fail({.code = Code::mismatch, .rank = link.peer()}, lane.current_call(),
                text_of(path) +
                    " wait in exchange to receive from each other: the sends are missing, or come "
                    "later",
                -1);
  const auto on_path = [&](uint32_t rank) {
    return std::find(path.begin(), path.end(), rank) != path.end();
  };
  const Instant time = base::Clock::process().now();
  Instant& followed = followed_.try_emplace(path[0], time - kFollowPause).first->second;
  if (on_path(mesh_.rank) || path.size() == kLongest || time - followed < kFollowPause) return;
  followed = time;
  path.push_back(mesh_.rank);
  ControlMessage circle{.kind = ControlKind::circle, .count = static_cast<uint16_t>(path.size())};
  std::memcpy(circle.text, path.data(), path.size() * sizeof path[0]);
  for (uint32_t rank = 0; rank < mesh_.ranks; ++rank)
    if (lane.executor.expects(rank) && (rank == path[0] || !on_path(rank)))
      lane.links[rank]->send_control(circle);
}

}  // namespace weft::collective
