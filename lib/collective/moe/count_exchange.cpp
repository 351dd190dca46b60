// SPDX-License-Identifier: BSD-3-Clause
// The all-gather of counts, and all_to_all_v with discovered counts.
#include "lib/collective/moe/count_exchange.hpp"

namespace weft::collective {
namespace {

// An error that names the first rank whose buffer would overflow.
std::optional<Error> find_overflow(const Blocks& blocks, const RankCounts& counts, uint32_t ranks) {
  for (uint32_t to = 0; to < ranks; ++to) {
    uint64_t elements = 0;
    for (uint32_t from = 0; from < ranks; ++from) elements += blocks.counts[from * ranks + to];
    const uint64_t capacity = static_cast<uint64_t>(counts.of(to).back());
    if (elements > capacity)
      return invalid(Collective::all_to_all_v,
                     "rank " + std::to_string(to) + " would receive " + std::to_string(elements) +
                         " elements, its buffer holds " + std::to_string(capacity));
  }
  return std::nullopt;
}

}  // namespace

Result<void> issue_count_exchange(Team& team, const RankCountsPtr& counts, Collective of,
                                  const CallOptions& options) {
  counts->all.resize(team.ranks() * counts->own.size());
  Result<TaskPtr> exchange =
      make_task(team,
                {.collective = Collective::all_gather,
                 .input = counts->own.data(),
                 .output = counts->all.data(),
                 .count = counts->own.size(),
                 .type = DataType::int64},
                {.limit = options.limit, .traffic_class = options.traffic_class});
  if (!exchange) return exchange.error();
  (*exchange)->call.collective = of;
  (*exchange)->complete = [counts](Task&) {};  // keeps the counts
  team.issue(*exchange);
  return {};
}

Result<TaskPtr> issue_discovered(Team& team, const Arguments& call,
                                 std::span<const size_t> send_counts, size_t capacity,
                                 std::span<size_t> receive_counts, const CallOptions& options) {
  const uint32_t ranks = team.ranks();
  if (send_counts.size() != ranks || receive_counts.size() != ranks)
    return invalid(call.collective, "counts have one entry for each rank");
  const size_t most = kMostBytes / ranks / size_of(call.type);
  size_t sent = 0;
  for (const size_t count : send_counts) {
    if (count > most) return invalid(call.collective, "the count is too large");
    sent += count;
  }
  // The size of the output is not known yet: assume its capacity.
  capacity = std::min(capacity, kMostBytes);
  if (Result<void> apart = check_apart(call.collective, call.input, sent * size_of(call.type),
                                       call.output, capacity * size_of(call.type));
      !apart)
    return apart.error();
  const RankCountsPtr counts = std::make_shared<RankCounts>();
  counts->own.assign(send_counts.begin(), send_counts.end());
  counts->own.push_back(static_cast<int64_t>(capacity));
  Result<TaskPtr> task = new_task(team, call, options, team.next_sequence() + 1);
  if (!task) return task;
  (*task)->prepare = [=, &team](Task& own) -> Result<void> {
    Arguments arguments = call;
    for (uint32_t from = 0; from < ranks; ++from) {
      const std::span<const int64_t> row = counts->of(from);
      arguments.blocks.counts.insert(arguments.blocks.counts.end(), row.begin(), row.end() - 1);
      receive_counts[from] = static_cast<size_t>(row[team.rank()]);
    }
    own.error = find_overflow(arguments.blocks, *counts, ranks);
    return own.error ? Result<void>() : plan_task(team, own, arguments);
  };
  if (Result<void> issued = issue_count_exchange(team, counts, call.collective, options); !issued)
    return issued.error();
  team.issue(*task);
  return task;
}

}  // namespace weft::collective
