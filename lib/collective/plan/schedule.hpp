// SPDX-License-Identifier: BSD-3-Clause
// A schedule is data: for each rank a program, a list of steps over three spaces of memory. The
// same object is executed over verbs, checked by verify(), printed and costed; nothing in it knows
// a transport, a pointer or a time.
//
// What a program means:
// - A step starts when all its dependencies are done. Nothing else orders steps of one rank, so
//   steps that touch the same memory depend on each other (Builder sees to it, verify() proves it),
//   and the result does not depend on timing: the same bits in every run.
// - Puts from one rank to another and receives there meet in program order: the k-th put meets the
//   k-th receive. The receiver says where the elements go.
// - A put is done when its source may be overwritten.
// - Of steps that are `beside` each other and add to the same memory any may be the first; but
//   they are executed one at a time.
//
// Reductions of small types are computed in a wider accumulator type. `input` and `output` hold
// elements, `work` holds accumulators; `finish` rounds an accumulator to an element, once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
  Range part(uint64_t from, uint64_t length) const { return {space, offset + from, length}; }
};

enum class StepKind : uint8_t {
  put,             // source -> the peer
  receive,         // the peer -> target
  receive_reduce,  // target = what the peer put, reduced with source
  copy,            // target = source
  reduce,          // target = target reduced with source
  finish,          // target = source, divided if the operation is an average, and rounded
};

inline constexpr uint8_t kAnyWay = 255;

struct Step {
  StepKind kind = StepKind::copy;
  bool wide = false;        // receive, receive_reduce: the peer puts accumulators, not elements
  bool beside = false;      // adds to what it finds there, as others do that it does not wait for
  uint8_t along = kAnyWay;  // put: by the links of this dimension, if there is more than one way
  uint32_t peer = 0;
  Range source;
  Range target;
  uint32_t left = 1;  // pieces of the same transfer from here on
};

// True if the target is changed by what is added to it: then the order does not matter, but for
// rounding.
inline bool accumulates(const Step& step) {
  return step.kind == StepKind::reduce ||
         (step.kind == StepKind::receive_reduce && step.source == step.target);
}

// The steps of one rank. Dependencies are indices of earlier steps.
struct Program {
  std::vector<Step> steps;
  std::vector<uint32_t> dependencies;      // of all steps, one after the other
  std::vector<uint32_t> first_dependency;  // steps.size() + 1 entries
  uint64_t work = 0;                       // elements of the work space

  std::span<const uint32_t> dependencies_of(size_t step) const {
    return std::span(dependencies)
        .subspan(first_dependency[step], first_dependency[step + 1] - first_dependency[step]);
  }
};

// How ranks are arranged, for algorithms that care: rank = ((a * size_b) + b) * size_c + c, for
// dimensions a, b, c. Their product is the number of ranks.
struct Dimension {
  uint32_t size = 1;
  double rate = 1;   // relative, of one rank's links in this dimension
  bool ring = true;  // neighbours only; otherwise any two of a line are as near
  bool operator==(const Dimension&) const = default;
};

// The sizes of blocks in the _v forms, in elements.
// - all_gather_v, reduce_scatter_v: counts[r] is rank r's block.
// - all_to_all_v, dispatch, combine: the buffer of a rank that gives has `parts` blocks for each
//   rank (one, or one for each of its experts), one after the other: counts[from * ranks * parts +
//   to * parts + part]. A rank needs to know its own row and column only. The buffer of the rank
//   that takes has the parts at multiples of `stride`, in each the blocks of all ranks, one after
//   the other. combine is the way back: taking and giving change places.
// - dispatch, where ranks lie in racks of as many ranks each: blocks are rows of `width` elements,
//   and row i of what a rank gives is equal to its row same[rank][i], the first of its kind for the
//   same rack. A rank needs to know its own, and of its mirrors in other racks the rows for its
//   rack.
// - all_to_all_v: given_at[from][to] and taken_at[to][from] say where blocks lie instead, if they
// are
//   not empty. A rank needs to know its own.
struct Blocks {
  std::vector<uint64_t> counts;
  uint32_t parts = 1;
  uint64_t stride = 0;
  uint64_t width = 1;
  uint32_t racks = 1;
  std::vector<std::vector<uint32_t>> same = {};  // empty: all differ
  std::vector<std::vector<uint64_t>> given_at = {}, taken_at = {};
  bool operator==(const Blocks&) const = default;
};

// What is to be done: the call's arguments as far as they shape the schedule.
struct Shape {
  Collective collective = Collective::all_reduce;
  uint32_t ranks = 1;
  uint32_t root = 0;
  uint64_t count = 0;  // elements, as in the call; not used by forms that have blocks
  bool in_place =
      false;          // the smaller buffer lies where its elements have their place in the other
  bool exact = true;  // accumulators are elements: no rounding
  bool average = false;
  bool any_order = false;  // contributions are added as they come: other bits in every run
  Blocks blocks = {};
  std::vector<Dimension> dimensions = {};  // none: ranks are all alike
  uint64_t piece = 0;  // transfers are cut into so many elements, to overlap; 0: not at all
  uint64_t wave = 0;   // least elements of a step in schedules of several waves; 0: what pays

  bool operator==(const Shape&) const = default;
};

bool reduces(Collective collective) noexcept;
bool gathers(Collective collective) noexcept;     // all_gather(_v)
bool scatters(Collective collective) noexcept;    // reduce_scatter(_v)
bool has_blocks(Collective collective) noexcept;  // the _v forms, dispatch and combine
uint64_t input_size(const Shape& shape, uint32_t rank) noexcept;
uint64_t output_size(const Shape& shape, uint32_t rank) noexcept;

// The block of `rank` in the buffer that has one of every rank: the output of all_gather(_v), the
// input of reduce_scatter(_v).
Range share(const Shape& shape, uint32_t rank) noexcept;
// all_to_all(_v), dispatch, combine: what `from` gives to `to`, in its input, and where `to` has it
// in its output.
Range given(const Shape& shape, uint32_t from, uint32_t to, uint32_t part = 0) noexcept;
Range taken(const Shape& shape, uint32_t from, uint32_t to, uint32_t part = 0) noexcept;

// The first row for the same rack that is equal to a row of what `from` gives.
inline uint64_t first_alike(const Shape& shape, uint32_t from, uint64_t row) noexcept {
  return shape.blocks.same.empty() ? row : shape.blocks.same[from][row];
}

// Where a range really lies: in place, two spaces are one.
Range resolve(const Shape& shape, uint32_t rank, Range range) noexcept;
// True if a put of this range carries accumulators.
inline bool is_wide(const Shape& shape, const Range& range) noexcept {
  return !shape.exact && range.space == Space::work;
}

std::string to_string(const Range& range);
std::string to_string(const Step& step);

}  // namespace weft::collective
