// SPDX-License-Identifier: BSD-3-Clause
// Keys of an attempt in the store: NAME/shrink/NUMBER/ followed by each rank that takes part, by
// "members", the agreed list, and by "verdict", whether they have connected. The group that is
// made is NAME/shrink/NUMBER/group, and the attempts to shrink that one are numbered NUMBER-1,
// NUMBER-2 .., so that names stay short however many ranks die one after the other.
#include "lib/collective/team/survivors.hpp"

#include <algorithm>
#include <sstream>

#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

constexpr Duration kPollTimeout = Duration::from_ms(10);
constexpr Duration kStoreLimit = Duration::from_s(5);  // of keys that exist
constexpr std::string_view kMade = "made", kFailed = "failed";

std::string attempt_name(const std::string& group, uint32_t number) {
  constexpr std::string_view kShrink = "/shrink/";
  const size_t numbers = group.rfind(kShrink);
  const size_t end = group.size() - std::min(group.size(), Attempt::kGroup.size());
  const bool shrunk = numbers != std::string::npos && group.substr(end) == Attempt::kGroup &&
                      group.find('/', numbers + kShrink.size()) == end;
  const std::string text = std::to_string(number);
  return shrunk ? group.substr(0, end) + "-" + text : group + std::string(kShrink) + text;
}

std::vector<uint32_t> from_text(const std::string& text) {
  std::istringstream stream(text);
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; stream >> rank;) ranks.push_back(rank);
  return ranks;
}

}  // namespace

std::string to_text(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (const uint32_t rank : ranks) text += (text.empty() ? "" : " ") + std::to_string(rank);
  return text;
}

Attempt::Attempt(const Team& team, Store& store, uint32_t number)
    : rank_(team.rank()),
      ranks_(team.ranks()),
      store_(store),
      name_(attempt_name(team.options().name, number)) {}

Result<std::optional<bool>> Attempt::outcome(Duration limit) {
  const Result<std::string> found = store_.get(name_ + "/verdict", limit);
  if (found) return std::optional<bool>(*found == kMade);
  if (found.error().code == Code::timed_out) return std::optional<bool>();
  return found.error();
}

Result<std::vector<uint32_t>> Attempt::members(Duration limit) {
  const Result<std::string> found = store_.get(name_ + "/members", limit);
  if (found) return from_text(*found);
  if (found.error().code == Code::timed_out) return std::vector<uint32_t>();
  return found.error();
}

Result<bool> Attempt::has_joined(uint32_t rank) {
  const Result<std::string> found = store_.get(key(rank), kPollTimeout);
  if (found) return true;
  if (found.error().code == Code::timed_out) return false;
  return found.error();
}

Result<bool> Attempt::publish_outcome(bool made) {
  const std::string_view text = made ? kMade : kFailed;
  if (Result<void> published = store_.set(name_ + "/verdict", text); !published)
    return published.error();
  const Result<std::optional<bool>> counts = outcome(kStoreLimit);
  if (!counts) return counts.error();
  return counts->value_or(false);
}

Result<Attempt::Entry> Attempt::enter(Team& team, Duration patience) {
  Result<std::optional<bool>> made = outcome(kPollTimeout);
  if (!made) return made.error();
  if (*made == false) return Entry{};
  Result<std::vector<uint32_t>> joined_ranks = gather(team, patience);
  if (!joined_ranks) return joined_ranks.error();
  const bool taken =
      std::find(joined_ranks->begin(), joined_ranks->end(), rank_) != joined_ranks->end();
  if (taken) return Entry{*made ? Standing::finished : Standing::member, *joined_ranks};
  // The members may still fail to connect; they publish that after one or two times the patience.
  if (!*made) made = outcome(patience * 3);
  if (!made) return made.error();
  return Entry{*made == false ? Standing::finished : Standing::excluded, *joined_ranks};
}

Result<std::vector<uint32_t>> Attempt::gather(Team& team, Duration patience) {
  if (Result<void> published = store_.set(key(rank_), "here"); !published) return published.error();
  const Instant deadline = base::wall_now() + patience;
  std::vector<bool> here(ranks_);
  for (bool all = false; !all;) {
    all = true;
    const bool late = base::wall_now() > deadline;
    mark_exited(team.connections(), team.connections().liveness.exited_peers());
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (here[rank] || has_exited(team.connections(), rank)) continue;
      const Result<bool> found = has_joined(rank);
      if (!found) return found.error();
      here[rank] = *found;
      all &= *found || late;
    }
    Result<std::vector<uint32_t>> agreed = members(kPollTimeout);
    if (!agreed || !agreed->empty()) return agreed;
  }
  std::vector<uint32_t> counted;
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    if (here[rank] && !has_exited(team.connections(), rank)) counted.push_back(rank);
  if (Result<void> published = store_.set(name_ + "/members", to_text(counted)); !published)
    return published.error();
  return members(kStoreLimit);
}

}  // namespace weft::collective
