// SPDX-License-Identifier: BSD-3-Clause
// A schedule is data: one program per rank, which is a list of steps over three memory spaces. The
// same object is executed over verbs, checked by verify(), printed and costed; it holds no
// transport, pointer or time.
//
// What a program means:
// - A step starts when all its dependencies are done. Nothing else orders the steps of one rank, so
//   steps that touch the same memory depend on each other (Builder ensures it, verify() proves it),
//   and the result does not depend on timing: the same bits in every run.
// - Puts from one rank to another match receives there in program order: the k-th put matches the
//   k-th receive. The receiver decides where the elements go.
// - A put is done when its source may be overwritten.
// - `unordered` steps that add to the same memory run one at a time, in any order.
//
// Reductions of small types are computed in a wider accumulator type. `input` and `output` hold
// elements, `work` holds accumulators; `finish` rounds an accumulator to an element, once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/collective/plan/forest.hpp"
#include "weft/collective_types.hpp"

namespace weft::collective {

enum class Space : uint8_t { input, output, work };

// A range of elements.
struct Range {
  Space space = Space::input;
  uint64_t offset = 0;
  uint64_t count = 0;
  bool operator==(const Range&) const = default;
  uint64_t end() const { return offset + count; }
  Range part(uint64_t from, uint64_t length) const {
    WEFT_DCHECK(from <= count && length <= count - from);
    return {space, offset + from, length};
  }
};

enum class StepKind : uint8_t {
  put,             // source -> the peer
  receive,         // the peer -> target
  receive_reduce,  // target = the received elements reduced with source
  copy,            // target = source
  reduce,          // target = target reduced with source
  finish,          // target = source, divided if the operation is an average, and rounded
};

inline constexpr uint8_t kAnyDimension = 255;

struct Step {
  StepKind kind = StepKind::copy;
  bool wide = false;       // receive, receive_reduce: the peer puts accumulators, not elements
  bool unordered = false;  // adds to its target, in any order with the target's other additions
  uint8_t dimension = kAnyDimension;  // put: prefer the links of this dimension
  uint32_t peer = 0;
  Range source;
  Range target;
  uint32_t remaining_pieces = 1;  // of the same transfer, this one included
};

// True if the step adds to its target in place, so that only rounding depends on the order.
inline bool accumulates(const Step& step) {
  return step.kind == StepKind::reduce ||
         (step.kind == StepKind::receive_reduce && step.source == step.target);
}

// The steps of one rank. Dependencies are indices of earlier steps.
struct Program {
  std::vector<Step> steps;
  std::vector<uint32_t> dependencies;      // of all steps, in step order
  std::vector<uint32_t> first_dependency;  // steps.size() + 1 entries
  uint64_t work = 0;                       // size of the work space, in elements

  std::span<const uint32_t> dependencies_of(size_t step) const {
    WEFT_DCHECK(step < steps.size() && first_dependency[step] <= first_dependency[step + 1]);
    return std::span(dependencies)
        .subspan(first_dependency[step], first_dependency[step + 1] - first_dependency[step]);
  }
};

// The arrangement of ranks, for topology-aware algorithms: rank = ((a * size_b) + b) * size_c + c
// for dimensions a, b, c. The product of the sizes is the number of ranks.
struct Dimension {
  uint32_t size = 1;
  double rate = 1;   // of one rank's links in this dimension, relative to the others
  bool ring = true;  // links join neighbours only; otherwise any two ranks of a line are adjacent
  bool operator==(const Dimension&) const = default;
};

// The sizes of blocks in the _v forms, in elements.
// - all_gather_v, reduce_scatter_v: counts[r] is rank r's block.
// - all_to_all_v, dispatch, combine: the send buffer has `parts` consecutive blocks for each rank
//   (one, or one per expert of that rank): counts[from * ranks * parts + to * parts + part]. A rank
//   needs its own row and column only. The receive buffer has part p at p * `stride`, and in each
//   part the consecutive blocks of all ranks. combine reverses dispatch: the send and the receive
//   layout change places.
// - dispatch with several racks of equally many ranks: blocks are rows of `width` elements, and row
//   i of a send buffer equals its row first_equal_row[rank][i], the first equal row for the same
//   rack. A rank needs its own rows, and of its mirror ranks in other racks the rows for its rack.
// - all_to_all_v: send_displacements[from][to] and receive_displacements[to][from], if not empty,
//   are the offsets of blocks. A rank needs its own.
struct Blocks {
  std::vector<uint64_t> counts;
  uint32_t parts = 1;
  uint64_t stride = 0;
  uint64_t width = 1;
  uint32_t racks = 1;
  std::vector<std::vector<uint32_t>> first_equal_row = {};  // empty: all differ
  std::vector<std::vector<uint64_t>> send_displacements = {}, receive_displacements = {};
  bool operator==(const Blocks&) const = default;
};

// The arguments of a call that determine its schedule.
struct Shape {
  Collective collective = Collective::all_reduce;
  uint32_t ranks = 1;
  uint32_t root = 0;
  uint64_t count = 0;     // elements, as in the call; not used by forms that have blocks
  bool in_place = false;  // the smaller buffer is the matching part of the larger one
  bool exact = true;      // accumulators are elements: no rounding
  bool average = false;
  bool any_order = false;  // contributions are added in order of arrival: bits differ between runs
  Blocks blocks = {};
  std::vector<Dimension> dimensions = {};     // empty: all ranks are equally near
  std::shared_ptr<const Forest> forest = {};  // nullptr: all ranks are equally near
  uint64_t piece = 0;  // elements per piece of a transfer, to pipeline; 0: whole transfers
  uint64_t wave = 0;   // min. elements of a step in schedules of several waves; 0: default

  bool operator==(const Shape&) const = default;
};

bool reduces(Collective collective) noexcept;
bool gathers(Collective collective) noexcept;     // all_gather(_v)
bool scatters(Collective collective) noexcept;    // reduce_scatter(_v)
bool has_blocks(Collective collective) noexcept;  // the _v forms, dispatch and combine
uint64_t input_size(const Shape& shape, uint32_t rank) noexcept;
uint64_t output_size(const Shape& shape, uint32_t rank) noexcept;

// The block of `rank` in the buffer that has one block per rank: the output of all_gather(_v), the
// input of reduce_scatter(_v).
Range rank_block(const Shape& shape, uint32_t rank) noexcept;
// all_to_all(_v), dispatch, combine: the block from -> to in the input of `from`, and in the output
// of `to`.
Range send_block(const Shape& shape, uint32_t from, uint32_t to, uint32_t part = 0) noexcept;
Range receive_block(const Shape& shape, uint32_t from, uint32_t to, uint32_t part = 0) noexcept;

// The first row of the send buffer of `from` for the same rack that equals `row`.
inline uint64_t first_equal_row(const Shape& shape, uint32_t from, uint64_t row) noexcept {
  return shape.blocks.first_equal_row.empty() ? row : shape.blocks.first_equal_row[from][row];
}

// The actual range: in place, two spaces share memory.
Range resolve(const Shape& shape, uint32_t rank, Range range) noexcept;
// True if a put of this range carries accumulators, which are wider than elements.
inline bool is_wide(const Shape& shape, const Range& range) noexcept {
  return !shape.exact && range.space == Space::work;
}

std::string to_string(const Range& range);
std::string to_string(const Step& step);

}  // namespace weft::collective
