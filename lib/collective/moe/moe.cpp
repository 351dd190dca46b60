// SPDX-License-Identifier: BSD-3-Clause
// Dispatch: which choices are accepted, and the packing of rows by expert on the sending side.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "lib/collective/moe/moe_racks.hpp"

namespace weft::collective {

uint64_t experts_of(const Team& team, const RoutingState& routing) {
  return uint64_t{team.ranks()} * routing.experts_per_rank;
}

uint64_t rows_packed(const Team& team, const RoutingState& routing) {
  const uint64_t experts = experts_of(team, routing);
  uint64_t rows = 0;
  for (uint64_t e = 0; e < experts; ++e) rows += routing.accepted[team.rank() * experts + e];
  return rows;
}

Blocks blocks_of(const RoutingState& routing, uint64_t width) {
  Blocks blocks{
      routing.accepted, routing.experts_per_rank, routing.capacity * width, width, routing.racks,
      routing.same};
  for (uint64_t& count : blocks.counts) count *= width;
  return blocks;
}

namespace {

// Values that must be equal on all ranks; they follow the counts.
enum Agreed : size_t { kWidth, kType, kCapacity, kOrigins, kAgreed };

Result<void> check(const Team& team, const DispatchCall& call) {
  const auto refuse = [](const std::string& text) { return invalid(Collective::dispatch, text); };
  if (call.width == 0 || call.choices == 0 || call.experts_per_rank == 0)
    return refuse("width, choices and experts_per_rank must be at least 1");
  const uint64_t experts = uint64_t{team.ranks()} * call.experts_per_rank;
  const size_t most = kMostBytes / size_of(call.type) / call.width;
  if (experts * team.ranks() > (1U << 24) || call.capacity > most / experts ||
      call.count > most / call.choices)
    return refuse("the count is too large");
  if (call.experts.size() != call.count * call.choices)
    return refuse("experts has " + std::to_string(call.experts.size()) + " entries, " +
                  std::to_string(call.count) + " tokens of " + std::to_string(call.choices) +
                  " choices have " + std::to_string(call.count * call.choices));
  if (!call.origins.empty() && call.origins.size() != team.ranks())
    return refuse("origins has " + std::to_string(call.origins.size()) + " entries, there are " +
                  std::to_string(team.ranks()) + " ranks");
  std::vector<uint32_t> sorted(call.origins.begin(), call.origins.end());
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    return refuse("two ranks have origin " + std::to_string(*twice));
  if (call.origins.empty())
    for (const int32_t expert : call.experts)
      if (expert >= static_cast<int64_t>(experts))
        return refuse("there is no expert " + std::to_string(expert) + ", only 0 to " +
                      std::to_string(experts - 1));
  if (call.count > 0 && call.tokens == nullptr) return refuse("the tokens are null");
  if (call.capacity > 0 && call.output == nullptr) return refuse("the output is null");
  return {};
}

// From the caller's numbers of experts to those of this group, by the rank that has them now.
void map_experts(const DispatchCall& call, RoutingState& routing) {
  for (int32_t& expert : routing.experts)
    expert = std::max(expert, -1);  // -1: none, unlike kMasked
  if (call.origins.empty()) return;
  const int32_t per_rank = static_cast<int32_t>(call.experts_per_rank);
  std::unordered_map<int32_t, int32_t> rank_of;
  for (size_t rank = 0; rank < call.origins.size(); ++rank)
    rank_of[static_cast<int32_t>(call.origins[rank])] = static_cast<int32_t>(rank);
  for (int32_t& expert : routing.experts) {
    if (expert < 0) continue;
    const auto known = rank_of.find(expert / per_rank);
    routing.masked += known == rank_of.end();
    expert = known == rank_of.end() ? kMasked : known->second * per_rank + expert % per_rank;
  }
}

// A hash that distinguishes lists; 0 for an empty one.
int64_t fingerprint(std::span<const uint32_t> list) {
  uint64_t hash = list.size();
  for (const uint32_t value : list) hash = (hash ^ value) * 0x9E37'79B9'7F4A'7C15U + 1;
  return static_cast<int64_t>(hash);
}

// An error that numbers the first rank whose call differs from that of rank 0.
std::optional<Error> find_difference(const Team& team, const RankCounts& rows, uint64_t experts) {
  static constexpr const char* kNames[] = {"width", "type", "capacity", "origins"};
  for (uint32_t rank = 1; rank < team.ranks(); ++rank)
    for (size_t i = 0; i < kAgreed; ++i)
      if (rows.of(rank)[experts + i] != rows.of(0)[experts + i])
        return invalid(Collective::dispatch, "rank " + std::to_string(rank) + " and rank 0 give " +
                                                 "different values for " + kNames[i]);
  return std::nullopt;
}

// Experts accept choices in the order of ranks until they are full.
void accept(const Team& team, const RankCounts& rows, RoutingState& routing) {
  const uint64_t experts = experts_of(team, routing);
  routing.accepted.assign(team.ranks() * experts, 0);
  for (uint64_t expert = 0; expert < experts; ++expert) {
    uint64_t left = routing.capacity;
    for (uint32_t rank = 0; rank < team.ranks(); ++rank) {
      const uint64_t wanted = static_cast<uint64_t>(std::max<int64_t>(0, rows.of(rank)[expert]));
      const uint64_t taken = std::min(left, wanted);
      routing.accepted[rank * experts + expert] = taken;
      left -= taken;
    }
    if (expert / routing.experts_per_rank == team.rank())
      routing.filled[expert % routing.experts_per_rank] = routing.capacity - left;
  }
}

// Assigns a row to each accepted choice of this rank.
void assign_rows(const Team& team, RoutingState& routing) {
  const uint64_t experts = experts_of(team, routing);
  const uint64_t* const accepted = routing.accepted.data() + team.rank() * experts;
  std::vector<uint64_t> next(experts), end(experts);
  uint64_t row = 0;
  for (uint64_t expert = 0; expert < experts; ++expert) {
    next[expert] = row;
    row += accepted[expert];
    end[expert] = row;
  }
  routing.row_of.assign(routing.experts.size(), kNoRow);
  for (size_t i = 0; i < routing.experts.size(); ++i) {
    const int32_t expert = routing.experts[i];
    if (expert < 0) continue;
    const size_t e = static_cast<size_t>(expert);
    if (next[e] < end[e])
      routing.row_of[i] = next[e]++;
    else
      ++routing.dropped;
  }
}

// Copies tokens into their rows.
void pack(const RoutingState& routing, const std::byte* tokens, size_t row_bytes, std::byte* rows) {
  for (size_t i = 0; i < routing.row_of.size(); ++i)
    if (routing.row_of[i] != kNoRow)
      std::memcpy(rows + routing.row_of[i] * row_bytes, tokens + i / routing.choices * row_bytes,
                  row_bytes);
}

// The counts of all ranks are known: decides what is accepted, and assigns rows.
void apply_counts(const Team& team, const RankCounts& rows, RoutingState& routing) {
  routing.refused = find_difference(team, rows, experts_of(team, routing));
  if (routing.refused) return;
  accept(team, rows, routing);
  assign_rows(team, routing);
}

// The task that sends the mirror ranks which rows are equal.
Result<TaskPtr> make_equal_row_exchange(Team& team, const RankCountsPtr& rows,
                                        const RoutingPtr& routing,
                                        const std::shared_ptr<MirrorNumbers>& numbers,
                                        const CallOptions& options) {
  Result<TaskPtr> task = new_task(
      team, {.collective = Collective::all_to_all_v, .type = DataType::int32},
      {.limit = options.limit, .traffic_class = options.traffic_class}, team.next_sequence() + 1);
  if (!task) return task;
  (*task)->call.collective = Collective::dispatch;
  (*task)->prepare = [=, &team](Task& own) -> Result<void> {
    apply_counts(team, *rows, *routing);
    if ((own.error = routing->refused)) return {};
    find_equal_rows(team, *routing);
    return plan_task(team, own,
                     make_mirror_exchange(team, *routing, routing->same[team.rank()], *numbers));
  };
  return task;
}

Result<void> plan_dispatch(Team& team, Task& task, const DispatchCall& call,
                           RoutingState& routing) {
  const size_t row_bytes = call.width * size_of(call.type);
  Result<RegisteredPtr> packed =
      packed_space(team, task.call, rows_packed(team, routing) * row_bytes);
  if (!packed) return packed.error();
  Arguments arguments{Collective::dispatch, nullptr, call.output, 0, call.type};
  arguments.blocks = blocks_of(routing, call.width);
  if (*packed) {
    task.registered.push_back(*packed);
    arguments.input = (*packed)->memory;
    pack(routing, static_cast<const std::byte*>(call.tokens), row_bytes, (*packed)->memory);
  }
  return plan_task(team, task, arguments);
}

}  // namespace

Result<TaskPtr> issue_dispatch(Team& team, const DispatchCall& call, const RoutingPtr& routing,
                               const CallOptions& options) {
  if (Result<void> checked = check(team, call); !checked) return checked.error();
  routing->team = team.serial();
  routing->experts_per_rank = call.experts_per_rank;
  routing->capacity = call.capacity;
  routing->choices = call.choices;
  routing->experts.assign(call.experts.begin(), call.experts.end());
  map_experts(call, *routing);
  routing->filled.assign(call.experts_per_rank, 0);
  const uint64_t experts = experts_of(team, *routing);
  const RankCountsPtr rows = std::make_shared<RankCounts>();
  rows->own.assign(experts + kAgreed, 0);
  for (const int32_t expert : routing->experts)
    if (expert >= 0) ++rows->own[static_cast<size_t>(expert)];
  rows->own[experts + kWidth] = static_cast<int64_t>(call.width);
  rows->own[experts + kType] = static_cast<int64_t>(call.type);
  rows->own[experts + kCapacity] = static_cast<int64_t>(call.capacity);
  rows->own[experts + kOrigins] = fingerprint(call.origins);
  Result<TaskPtr> task =
      new_task(team, {Collective::dispatch, nullptr, call.output, 0, call.type}, options, 0);
  if (!task) return task;
  const bool by_rack = (*task)->algorithm->traits.by_rack;
  if (by_rack && team.selector() != nullptr) routing->racks = team.selector()->topology().racks;
  const std::shared_ptr<MirrorNumbers> numbers = std::make_shared<MirrorNumbers>();
  Result<TaskPtr> equal_rows = TaskPtr();
  if (by_rack) equal_rows = make_equal_row_exchange(team, rows, routing, numbers, options);
  if (!equal_rows) return equal_rows;
  (*task)->call.sequence = team.next_sequence() + 1 + by_rack;
  routing->traffic_class = (*task)->call.traffic_class;
  (*task)->prepare = [=, &team](Task& own) -> Result<void> {
    if (!by_rack) apply_counts(team, *rows, *routing);
    own.error = routing->refused;
    if (by_rack && !own.error && !read_equal_rows(team, *numbers, *routing))
      return Error{Code::io_error, "a rank has sent an invalid list of equal rows"};
    return own.error ? Result<void>() : plan_dispatch(team, own, call, *routing);
  };
  (*task)->complete = [routing](Task&) { routing->ready = true; };
  if (Result<void> issued = issue_count_exchange(team, rows, Collective::dispatch, options);
      !issued)
    return issued.error();
  if (by_rack) team.issue(*equal_rows);
  team.issue(*task);
  return task;
}

}  // namespace weft::collective

namespace weft {

size_t Routing::tokens_of(uint32_t expert) const noexcept {
  return state_ && expert < state_->filled.size() ? state_->filled[expert] : 0;
}
size_t Routing::dropped() const noexcept { return state_ ? state_->dropped : 0; }
size_t Routing::masked() const noexcept { return state_ ? state_->masked : 0; }

}  // namespace weft
