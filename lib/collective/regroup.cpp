// SPDX-License-Identifier: BSD-3-Clause
// Who belongs to a new group, and how survivors agree on it: each says in the store that it is
// there; the lowest of them, as far as one knows, waits for the others and writes down who came.
// What is written first counts, so two that both believe to be the lowest do no harm.
#include "lib/collective/regroup.hpp"

#include <algorithm>
#include <sstream>

#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

constexpr Duration kGlance = Duration::from_ms(10);

Instant now() { return base::Clock::process().now(); }

// The group of those ranks of `team`, of which this rank is one.
Result<std::shared_ptr<Team>> join_members(Team& team, Store& store, const std::string& name,
                                           const std::vector<uint32_t>& members) {
  CommunicatorOptions options = team.options();
  options.name = name;
  const uint32_t rank = static_cast<uint32_t>(
      std::find(members.begin(), members.end(), team.mesh().rank) - members.begin());
  Result<std::shared_ptr<Team>> joined =
      join(store, rank, static_cast<uint32_t>(members.size()), options);
  if (joined) (*joined)->set_members(members);
  return joined;
}

std::string to_text(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (const uint32_t rank : ranks) text += std::to_string(rank) + " ";
  return text;
}

std::vector<uint32_t> from_text(const std::string& text) {
  std::istringstream stream(text);
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; stream >> rank;) ranks.push_back(rank);
  return ranks;
}

class Agreement {
 public:
  Agreement(Team& team, Store& store, const std::string& name, Duration patience)
      : team_(team), store_(store), name_(name), patience_(patience) {}

  // The survivors. Errors: those of the store; peer_failed if the others do without this rank.
  Result<std::vector<uint32_t>> run() {
    const uint32_t rank = team_.mesh().rank;
    if (Result<void> said = store_.set(key(rank), "here"); !said) return said.error();
    const Instant deadline = now() + patience_ * 2;
    for (;;) {
      Result<std::string> found = store_.get(name_ + "/members", kGlance);
      if (found) return checked(from_text(*found));
      if (found.error().code != Code::timed_out) return found.error();
      team_.look_for_dead();
      if (lowest() == rank)
        if (Result<void> written = write_members(); !written) return written.error();
      if (now() > deadline)
        return Error{Code::timed_out, "rank " + std::to_string(lowest()) +
                                          " has not said who is left: do all survivors shrink?"};
    }
  }

 private:
  std::string key(uint32_t rank) const { return name_ + "/" + std::to_string(rank); }

  uint32_t lowest() const {
    uint32_t rank = 0;
    while (rank != team_.mesh().rank && team_.is_dead(rank)) ++rank;
    return rank;
  }

  // Waits for all who are not known to be dead, and writes down who came.
  Result<void> write_members() {
    std::vector<uint32_t> members;
    const Instant deadline = now() + patience_;
    for (uint32_t rank = 0; rank < team_.mesh().ranks; ++rank) {
      for (;;) {
        const Result<std::string> came = store_.get(key(rank), kGlance);
        if (came) members.push_back(rank);
        if (came || now() > deadline) break;
        if (came.error().code != Code::timed_out) return came.error();
        team_.look_for_dead();
        if (team_.is_dead(rank)) break;
      }
    }
    return store_.set(name_ + "/members", to_text(members));  // unless another has
  }

  Result<std::vector<uint32_t>> checked(std::vector<uint32_t> members) const {
    if (std::find(members.begin(), members.end(), team_.mesh().rank) != members.end())
      return members;
    return Error{Code::peer_failed, "the others go on without rank " +
                                        std::to_string(team_.mesh().rank) +
                                        ", which came too late: ranks " + to_text(members)};
  }

  Team& team_;
  Store& store_;
  std::string name_;
  Duration patience_;
};

}  // namespace

Result<std::shared_ptr<Team>> join(Store& store, uint32_t rank, uint32_t ranks,
                                   const CommunicatorOptions& options) {
  Result<Mesh> mesh = Mesh::connect(store, rank, ranks,
                                    {.device = options.device,
                                     .name = options.name,
                                     .shape = {options.slots, options.slot_bytes},
                                     .connect_limit = options.connect_limit,
                                     .patience = options.patience});
  if (!mesh) return mesh.error();
  return std::make_shared<Team>(std::move(*mesh), options);
}

Result<std::shared_ptr<Team>> split(Team& team, Store& store, std::span<const int64_t> colours,
                                    std::span<const int64_t> keys) {
  const int64_t colour = colours[team.mesh().rank];
  std::vector<uint32_t> members;
  for (uint32_t rank = 0; rank < team.mesh().ranks; ++rank)
    if (colours[rank] == colour) members.push_back(rank);
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  // The number of the call makes the name new, and the same on all ranks.
  const std::string name = team.options().name + "/split" + std::to_string(team.next_sequence()) +
                           "/" + std::to_string(colour);
  return join_members(team, store, name, members);
}

Result<std::shared_ptr<Team>> shrink(Team& team, Store& store, Duration patience) {
  const std::string name = team.options().name + "/shrink" + std::to_string(team.next_shrink());
  Result<std::vector<uint32_t>> members = Agreement(team, store, name, patience).run();
  if (!members) return members.error();
  return join_members(team, store, name + "/group", *members);
}

}  // namespace weft::collective
