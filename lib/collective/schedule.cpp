// SPDX-License-Identifier: BSD-3-Clause
// Sizes of the spaces, the places where in-place buffers coincide, and how steps are printed.
#include "lib/collective/schedule.hpp"

namespace weft::collective {

bool reduces(Collective collective) noexcept {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce || collective == Collective::barrier;
}

uint64_t input_size(const Shape& shape, uint32_t rank) noexcept {
  switch (shape.collective) {
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return shape.count * shape.ranks;
    case Collective::broadcast:
      return rank == shape.root ? shape.count : 0;
    default:
      return shape.count;
  }
}

uint64_t output_size(const Shape& shape, uint32_t rank) noexcept {
  switch (shape.collective) {
    case Collective::all_gather:
    case Collective::all_to_all:
      return shape.count * shape.ranks;
    case Collective::reduce:
      return rank == shape.root ? shape.count : 0;
    default:
      return shape.count;
  }
}

Range resolve(const Shape& shape, uint32_t rank, Range range) noexcept {
  if (!shape.in_place || range.space == Space::work) return range;
  if (shape.collective == Collective::reduce_scatter) {
    if (range.space == Space::output)
      return {Space::input, shape.count * rank + range.offset, range.count};
    return range;
  }
  if (shape.collective == Collective::reduce && rank != shape.root) return range;
  if (range.space == Space::output) return range;
  const uint64_t shift = shape.collective == Collective::all_gather ? shape.count * rank : 0;
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
      return "put " + to_string(step.source) + " to " + peer;
    case StepKind::receive:
      return "receive " + to_string(step.target) + " from " + peer;
    case StepKind::receive_reduce:
      return "receive_reduce " + to_string(step.target) + " from " + peer + " with " +
             to_string(step.source);
    case StepKind::copy:
      return "copy " + to_string(step.target) + " from " + to_string(step.source);
    case StepKind::reduce:
      return "reduce " + to_string(step.target) + " with " + to_string(step.source);
    case StepKind::finish:
      return "finish " + to_string(step.target) + " from " + to_string(step.source);
  }
  return "?";
}

}  // namespace weft::collective
