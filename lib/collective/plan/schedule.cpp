// SPDX-License-Identifier: BSD-3-Clause
// Sizes of the spaces, ranges of blocks, in-place resolution, and the text of steps.
#include "lib/collective/plan/schedule.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::collective {

bool reduces(Collective collective) noexcept {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce || collective == Collective::barrier ||
         collective == Collective::reduce_scatter_v;
}

bool gathers(Collective collective) noexcept {
  return collective == Collective::all_gather || collective == Collective::all_gather_v;
}

bool scatters(Collective collective) noexcept {
  return collective == Collective::reduce_scatter || collective == Collective::reduce_scatter_v;
}

bool has_blocks(Collective collective) noexcept {
  return collective >= Collective::all_gather_v && collective <= Collective::combine;
}

namespace {

uint64_t sum(const std::vector<uint64_t>& counts, uint64_t from, uint64_t to, uint64_t step = 1) {
  uint64_t total = 0;
  WEFT_DCHECK(step > 0 && to <= counts.size());
  for (uint64_t i = from; i < to; i += step) total += counts[i];
  return total;
}

// Index in `counts` of the first block that `from` sends.
uint64_t first_count_of(const Shape& shape, uint32_t from) {
  return uint64_t{from} * shape.ranks * shape.blocks.parts;
}

bool has_displacements(const std::vector<std::vector<uint64_t>>& at, uint32_t rank) {
  return !at.empty() && !at[rank].empty();
}

// The block from -> to in the send buffer of dispatch (combine: its receive buffer).
Range block_in_sender_layout(const Shape& shape, uint32_t from, uint32_t to, uint32_t part) {
  WEFT_DCHECK(from < shape.ranks && to < shape.ranks && part < shape.blocks.parts);
  const uint64_t at = first_count_of(shape, from) + uint64_t{to} * shape.blocks.parts + part;
  if (has_displacements(shape.blocks.send_displacements, from))
    return {Space::input, shape.blocks.send_displacements[from][to], shape.blocks.counts[at]};
  return {Space::input, sum(shape.blocks.counts, first_count_of(shape, from), at),
          shape.blocks.counts[at]};
}

// The block from -> to in the receive buffer of dispatch (combine: its send buffer).
Range block_in_receiver_layout(const Shape& shape, uint32_t from, uint32_t to, uint32_t part) {
  const uint64_t column = uint64_t{to} * shape.blocks.parts + part;
  WEFT_DCHECK(from < shape.ranks && to < shape.ranks && part < shape.blocks.parts);
  if (has_displacements(shape.blocks.receive_displacements, to))
    return {Space::output, shape.blocks.receive_displacements[to][from],
            shape.blocks.counts[first_count_of(shape, from) + column]};
  const uint64_t before = sum(shape.blocks.counts, column, first_count_of(shape, from) + column,
                              first_count_of(shape, 1));
  return {Space::output, part * shape.blocks.stride + before,
          shape.blocks.counts[first_count_of(shape, from) + column]};
}

Range in_space(Range range, Space space) { return {space, range.offset, range.count}; }

// An empty block may have any offset.
uint64_t end_of(const Range& range) { return range.count == 0 ? 0 : range.end(); }

// The size of a buffer with the receiver's layout.
uint64_t end_of_receiver_layout(const Shape& shape, uint32_t rank) {
  uint64_t end = 0;
  if (has_displacements(shape.blocks.receive_displacements, rank)) {
    for (uint32_t from = 0; from < shape.ranks; ++from)
      end = std::max(end, end_of(block_in_receiver_layout(shape, from, rank, 0)));
    return end;
  }
  for (uint32_t part = 0; part < shape.blocks.parts; ++part)
    end = std::max(end, block_in_receiver_layout(shape, shape.ranks - 1, rank, part).end());
  return end;
}

// The size of a buffer with the sender's layout.
uint64_t end_of_sender_layout(const Shape& shape, uint32_t rank) {
  if (has_displacements(shape.blocks.send_displacements, rank)) {
    uint64_t end = 0;
    for (uint32_t to = 0; to < shape.ranks; ++to)
      end = std::max(end, end_of(block_in_sender_layout(shape, rank, to, 0)));
    return end;
  }
  return sum(shape.blocks.counts, first_count_of(shape, rank), first_count_of(shape, rank + 1));
}

}  // namespace

Range rank_block(const Shape& shape, uint32_t rank) noexcept {
  WEFT_DCHECK(rank < shape.ranks);
  const Space space = gathers(shape.collective) ? Space::output : Space::input;
  if (!has_blocks(shape.collective)) return {space, rank * shape.count, shape.count};
  return {space, sum(shape.blocks.counts, 0, rank), shape.blocks.counts[rank]};
}

Range send_block(const Shape& shape, uint32_t from, uint32_t to, uint32_t part) noexcept {
  WEFT_DCHECK(from < shape.ranks && to < shape.ranks && part < shape.blocks.parts);
  if (!has_blocks(shape.collective)) return {Space::input, to * shape.count, shape.count};
  if (shape.collective == Collective::combine)
    return in_space(block_in_receiver_layout(shape, to, from, part), Space::input);
  return block_in_sender_layout(shape, from, to, part);
}

Range receive_block(const Shape& shape, uint32_t from, uint32_t to, uint32_t part) noexcept {
  WEFT_DCHECK(from < shape.ranks && to < shape.ranks && part < shape.blocks.parts);
  if (!has_blocks(shape.collective)) return {Space::output, from * shape.count, shape.count};
  if (shape.collective == Collective::combine)
    return in_space(block_in_sender_layout(shape, to, from, part), Space::output);
  return block_in_receiver_layout(shape, from, to, part);
}

uint64_t input_size(const Shape& shape, uint32_t rank) noexcept {
  WEFT_DCHECK(rank < shape.ranks);
  switch (shape.collective) {
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return shape.count * shape.ranks;
    case Collective::broadcast:
      return rank == shape.root ? shape.count : 0;
    case Collective::all_gather_v:
      return rank_block(shape, rank).count;
    case Collective::reduce_scatter_v:
      return rank_block(shape, shape.ranks - 1).end();
    case Collective::all_to_all_v:
    case Collective::dispatch:
      return end_of_sender_layout(shape, rank);
    case Collective::combine:
      return end_of_receiver_layout(shape, rank);
    default:
      return shape.count;
  }
}

uint64_t output_size(const Shape& shape, uint32_t rank) noexcept {
  WEFT_DCHECK(rank < shape.ranks);
  switch (shape.collective) {
    case Collective::all_gather:
    case Collective::all_to_all:
      return shape.count * shape.ranks;
    case Collective::reduce:
      return rank == shape.root ? shape.count : 0;
    case Collective::all_gather_v:
      return rank_block(shape, shape.ranks - 1).end();
    case Collective::reduce_scatter_v:
      return rank_block(shape, rank).count;
    case Collective::all_to_all_v:
    case Collective::dispatch:
      return end_of_receiver_layout(shape, rank);
    case Collective::combine:
      return end_of_sender_layout(shape, rank);
    default:
      return shape.count;
  }
}

Range resolve(const Shape& shape, uint32_t rank, Range range) noexcept {
  WEFT_DCHECK(rank < shape.ranks);
  if (!shape.in_place || range.space == Space::work) return range;
  if (scatters(shape.collective)) {
    if (range.space == Space::output)
      return {Space::input, rank_block(shape, rank).offset + range.offset, range.count};
    return range;
  }
  if (shape.collective == Collective::reduce && rank != shape.root) return range;
  if (range.space == Space::output) return range;
  const uint64_t shift = gathers(shape.collective) ? rank_block(shape, rank).offset : 0;
  return {Space::output, range.offset + shift, range.count};
}

std::string to_string(const Range& range) {
  static constexpr const char* kSpaces[] = {"input", "output", "work"};
  return std::string(kSpaces[static_cast<int>(range.space)]) + "[" + std::to_string(range.offset) +
         ".." + std::to_string(range.end()) + ")";
}

std::string to_string(const Step& step) {
  const std::string peer = std::to_string(step.peer);
  switch (step.kind) {
    case StepKind::put:
      return "put " + to_string(step.source) + " to " + peer +
             (step.dimension == kAnyDimension
                  ? ""
                  : " along dimension " + std::to_string(step.dimension));
    case StepKind::receive:
      return "receive " + to_string(step.target) + " from " + peer;
    case StepKind::receive_reduce:
      return "receive_reduce " + to_string(step.target) + " from " + peer + " with " +
             to_string(step.source) + (step.unordered ? " in any order" : "");
    case StepKind::copy:
      return "copy " + to_string(step.target) + " from " + to_string(step.source);
    case StepKind::reduce:
      return "reduce " + to_string(step.target) + " with " + to_string(step.source) +
             (step.unordered ? " in any order" : "");
    case StepKind::finish:
      return "finish " + to_string(step.target) + " from " + to_string(step.source);
  }
  return "?";
}

}  // namespace weft::collective
