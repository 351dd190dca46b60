// SPDX-License-Identifier: BSD-3-Clause
// New groups: their members, names and connections.
#include "lib/collective/team/regroup.hpp"

#include <algorithm>

#include "lib/collective/model/topology_file.hpp"
#include "lib/collective/team/arguments.hpp"
#include "lib/collective/team/remaining_rails.hpp"
#include "lib/collective/team/survivors.hpp"
#include "lib/collective/team/waiting.hpp"

namespace weft::collective {
namespace {

// A group with the options of `team`, over the rails that its first `known` ranks still have: these
// are ranks of `team`, and all of them call this.
Result<std::shared_ptr<Team>> create_regrouped(Team& team, Store& store, const std::string& name,
                                               uint32_t rank, uint32_t known, uint32_t ranks,
                                               Duration connect_limit) {
  CommunicatorOptions options = team.options();
  options.name = name;
  options.topology.clear();  // describes the whole group
  const Result<std::string> device =
      device_with_remaining_rails(store, name, rank, known, options.device, connect_limit);
  if (!device) return device.error();
  return create_team(store, rank, ranks, options, connect_limit, *device);
}

// The group of these ranks of `team`, of which this rank is one.
Result<std::shared_ptr<Team>> join_members(Team& team, Store& store, const std::string& name,
                                           const std::vector<uint32_t>& members,
                                           Duration connect_limit) {
  const uint32_t rank = static_cast<uint32_t>(
      std::find(members.begin(), members.end(), team.rank()) - members.begin());
  const uint32_t ranks = static_cast<uint32_t>(members.size());
  Result<std::shared_ptr<Team>> joined =
      create_regrouped(team, store, name, rank, ranks, ranks, connect_limit);
  if (joined) (*joined)->lineage() = descend(team.lineage(), members);
  return joined;
}

// None if the name is empty.
Result<std::optional<Topology>> find_network(const std::string& name, uint32_t ranks) {
  if (name.empty()) return std::optional<Topology>();
  Result<Topology> network = read_topology(name);
  if (!network) return network.error();
  if (network->chips == ranks) return std::optional<Topology>(std::move(*network));
  return Error{Code::invalid_argument, "topology " + name + " has " +
                                           std::to_string(network->chips) + " chips, there are " +
                                           std::to_string(ranks) + " ranks"};
}

Result<void> barrier(Team& team, Duration limit) {
  Result<TaskPtr> task = make_barrier(team, {.limit = limit});
  if (!task) return task.error();
  team.issue(*task);
  return wait(team, **task);
}

// The members connect and run a barrier: a rank that completes it knows that all are connected, so
// the outcome "made" is never published before. A rank that dies later fails the new group.
Result<std::shared_ptr<Team>> connect_members(Team& team, Store& store, Attempt& attempt,
                                              const std::vector<uint32_t>& members,
                                              Duration patience) {
  Result<std::shared_ptr<Team>> joined =
      join_members(team, store, attempt.group_name(), members, patience);
  const Result<void> met = joined ? barrier(**joined, patience) : joined.error();
  const Result<bool> made = attempt.publish_outcome(static_cast<bool>(met));
  if (!made) return made.error();
  if (joined && *made) return joined;
  return met ? Error{Code::timed_out, "another survivor could not connect: call shrink() again"}
             : met.error();
}

}  // namespace

Result<std::shared_ptr<Team>> create_team(Store& store, uint32_t rank, uint32_t ranks,
                                          const CommunicatorOptions& options,
                                          Duration connect_limit, const std::string& device) {
  Result<std::optional<Topology>> found = find_network(options.topology, ranks);
  if (!found) return found.error();
  std::optional<Topology>& network = *found;
  Result<PeerConnections> connections =
      PeerConnections::connect(store, rank, ranks,
                               {.device = device,
                                .name = options.name,
                                .shape = {options.slots, options.slot_bytes},
                                .connect_limit = connect_limit,
                                .dead_peer_timeout = options.patience,
                                .classes = classes_of(options),
                                .security = options.security});
  if (!connections) return connections.error();
  std::shared_ptr<Team> team = std::make_shared<Team>(std::move(*connections), options);
  if (network) team->planning().selector = std::make_unique<Selector>(std::move(*network));
  return team;
}

Result<std::shared_ptr<Team>> split(Team& team, Store& store, std::span<const int64_t> colours,
                                    std::span<const int64_t> keys) {
  const int64_t colour = colours[team.rank()];
  std::vector<uint32_t> members;
  for (uint32_t rank = 0; rank < team.ranks(); ++rank)
    if (colours[rank] == colour) members.push_back(rank);
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  // The sequence number makes the name unique, and equal on all ranks.
  const std::string name = team.options().name + "/split" + std::to_string(team.next_sequence()) +
                           "/" + std::to_string(colour);
  return join_members(team, store, name, members, team.options().connect_limit);
}

Result<std::shared_ptr<Team>> grow(Team& team, Store& store, uint32_t ranks,
                                   const std::string& name) {
  return create_regrouped(team, store, name, team.rank(), team.ranks(), ranks,
                          team.options().connect_limit);
}

// A failed attempt is followed by the next, at most eight in one call. In later attempts ranks wait
// longer for each other, since some learn late that an attempt has failed.
Result<std::shared_ptr<Team>> shrink(Team& team, Store& store, Duration patience) {
  constexpr uint32_t kMaxAttempts = 8;
  uint32_t tried = 0;
  for (uint32_t number = 1;; ++number) {
    Attempt attempt(team, store, number);
    Result<Attempt::Entry> entry = attempt.enter(team, number == 1 ? patience : patience * 3);
    if (!entry) return entry.error();
    if (entry->standing == Attempt::Standing::finished) continue;
    if (entry->standing == Attempt::Standing::excluded)
      return Error{Code::peer_failed,
                   "the survivors continue without rank " + std::to_string(team.rank()) +
                       ", which called shrink() too late: ranks " + to_text(entry->members)};
    Result<std::shared_ptr<Team>> made =
        connect_members(team, store, attempt, entry->members, patience);
    if (made || ++tried == kMaxAttempts) return made;
  }
}

}  // namespace weft::collective
