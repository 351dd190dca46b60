// SPDX-License-Identifier: BSD-3-Clause
// Combine over racks, the reverse of the dispatch over racks: each rank sends its mirrors the
// weights of the rows that went to their racks; inside each rack the experts' rows go to the
// mirrors of the tokens' ranks; each mirror sums the rows of one token; and one row for each token
// returns to its rack. These are three calls, the last of which is the combine that the caller
// sees.
#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/collective/moe/moe_combine.hpp"

namespace weft::collective {
namespace {

// The weights of this rank's choices, by row, as 32-bit words.
std::vector<uint32_t> weights_by_row(const Team& team, const Combining& combining) {
  const RoutingState& routing = *combining.routing;
  std::vector<uint32_t> words(rows_packed(team, routing));
  for (size_t i = 0; i < routing.row_of.size(); ++i)
    if (routing.row_of[i] != kNoRow)
      words[routing.row_of[i]] = std::bit_cast<uint32_t>(combining.weights[i]);
  return words;
}

// Sums the rows of one mirror, which begin at `rows`, in order; appends the sums, one for each of
// its tokens, to `out`.
void add_partials(const Racks& racks, Combining& combining, uint32_t from, const std::byte* rows,
                  std::span<const uint32_t> weights) {
  const Arithmetic arithmetic = combining.arithmetic();
  const uint64_t width = combining.call.width;
  const uint64_t begin = racks.before(from, racks.own());
  const std::vector<uint64_t> firsts = racks.distinct(from, racks.own());
  std::vector<std::byte> sums(firsts.size() * width * arithmetic.accumulator);
  for (uint64_t row = begin; row < begin + weights.size(); ++row) {
    const auto first =
        std::lower_bound(firsts.begin(), firsts.end(), racks.routing.same[from][row]);
    const uint64_t sum = static_cast<uint64_t>(first - firsts.begin());
    arithmetic.add_weighted(sums.data() + sum * width * arithmetic.accumulator,
                            rows + (row - begin) * width * arithmetic.element,
                            std::bit_cast<float>(weights[row - begin]), width);
  }
  if (combining.call.partials == Partials::rounded) {
    arithmetic.finish(sums.data(), sums.data(), firsts.size() * width, 1);
    sums.resize(firsts.size() * width * arithmetic.element);
  }
  combining.out.insert(combining.out.end(), sums.begin(), sums.end());
}

// `rows`: those of all mirrors, one after the other in the order of racks.
void add_all_partials(const Team& team, Combining& combining, const std::byte* rows) {
  const Racks racks{team, *combining.routing};
  std::span<const uint32_t> weights = combining.weights_by_row.in;
  for (uint32_t rack = 0; rack < racks.routing.racks; ++rack) {
    if (rack == racks.own()) continue;
    const uint32_t from = racks.mirror(rack);
    const uint64_t count = racks.rows(from, racks.own());
    add_partials(racks, combining, from, rows, weights.first(count));
    weights = weights.subspan(count);
    rows += count * combining.call.width * combining.arithmetic().element;
  }
}

// The call that carries partial sums to the mirrors.
Arguments make_crossing(const Team& team, Combining& combining) {
  const Racks racks{team, *combining.routing};
  const uint32_t rank = team.rank(), ranks = team.ranks();
  const uint64_t width = combining.crossing_width();
  Arguments call{.collective = Collective::all_to_all_v, .type = combining.crossing_type()};
  call.blocks.counts.assign(size_t{ranks} * ranks, 0);
  uint64_t elements = 0;
  for (uint32_t rack = 0; rack < racks.routing.racks; ++rack) {
    if (rack == racks.own()) continue;
    const uint32_t mirror = racks.mirror(rack);
    const uint64_t back = racks.distinct(rank, rack).size() * width;
    call.blocks.counts[size_t{rank} * ranks + mirror] =
        racks.distinct(mirror, racks.own()).size() * width;
    call.blocks.counts[size_t{mirror} * ranks + rank] = back;
    elements += back;
  }
  combining.in.resize(elements * size_of(call.type));
  call.input = combining.out.data();
  call.output = combining.in.data();
  return call;
}

Result<TaskPtr> part_of_combine(Team& team, DataType type, const CallOptions& options,
                                uint64_t sequence) {
  Result<TaskPtr> task =
      new_task(team, {.collective = Collective::all_to_all_v, .type = type},
               {.limit = options.limit, .traffic_class = options.traffic_class}, sequence);
  if (task) (*task)->call.collective = Collective::combine;
  return task;
}

}  // namespace

DataType Combining::crossing_type() const {
  if (call.partials == Partials::rounded) return call.type;
  return call.type == DataType::fp64 ? DataType::fp64 : DataType::fp32;
}

uint64_t Combining::crossing_width() const {
  if (call.partials == Partials::rounded) return call.width;
  return call.width * arithmetic().accumulator / size_of(crossing_type());
}

Result<TaskPtr> issue_over_racks(Team& team, const CombiningPtr& combining, const TaskPtr& rows,
                                 const CallOptions& options) {
  const uint64_t first = team.next_sequence();
  Result<TaskPtr> weights_task = part_of_combine(team, DataType::int32, options, first);
  if (!weights_task) return weights_task;
  Result<TaskPtr> crossing = part_of_combine(team, combining->crossing_type(), options, first + 2);
  if (!crossing) return crossing;
  (*weights_task)->prepare = [=, &team](Task& own) -> Result<void> {
    const RoutingState& routing = *combining->routing;
    if (!dispatch_succeeded(team, own, routing)) return {};
    return plan_task(team, own,
                     make_mirror_exchange(team, routing, weights_by_row(team, *combining),
                                          combining->weights_by_row));
  };
  rows->call.sequence = first + 1;
  rows->parts = {*weights_task};
  rows->complete = [=, &team](Task& own) {
    combining->rows_at = own.output;
    add_all_partials(team, *combining, own.work ? own.work->memory : nullptr);
  };
  (*crossing)->call.count = combining->call.width;
  (*crossing)->parts = {*weights_task, rows};
  (*crossing)->prepare = [=, &team, by = rows->algorithm](Task& own) -> Result<void> {
    if (!dispatch_succeeded(team, own, *combining->routing)) return {};
    const Result<void> ready = plan_task(team, own, make_crossing(team, *combining));
    own.algorithm = by;
    return ready;
  };
  (*crossing)->complete = [=, &team](Task&) {
    accumulate_tokens(team, *combining, combining->rows_at);
  };
  team.issue(*weights_task);
  team.issue(rows);
  team.issue(*crossing);
  return crossing;
}

}  // namespace weft::collective
