// SPDX-License-Identifier: BSD-3-Clause
// Builder: an algorithm lists the steps of one rank in an order in which they could be executed one
// by one. Builder derives the dependencies from the memory that the steps touch: a read depends on
// the last write, a write on the last write and the reads since then. If the shape allows any order
// of additions, additions to the same memory do not depend on each other, and later reads and
// writes depend on all of them. Builder drops steps without elements and copies onto themselves,
// and cuts long transfers into pieces.
#pragma once

#include <map>

#include "lib/base/check.hpp"
#include "lib/collective/plan/schedule.hpp"

namespace weft::collective {

class Builder {
 public:
  Builder(const Shape& shape, uint32_t rank) : shape_(shape), rank_(rank) {
    WEFT_DCHECK(rank < shape.ranks);
  }
  const Shape& shape() const { return shape_; }
  uint32_t rank() const { return rank_; }

  // Makes work[x] and output[x] the same memory if accumulators are elements: saves a copy.
  // Call before the first step.
  void work_on_output() {
    WEFT_DCHECK(program_.steps.empty());
    work_on_output_ = shape_.exact;
  }

  void put(uint32_t peer, Range source);
  // Receives the peer's next put. `from`: the space that the peer puts from, which decides whether
  // the message carries accumulators.
  void receive(uint32_t peer, Range target, Space from = Space::input);
  // target = incoming reduced with source.
  void receive_reduce(uint32_t peer, Range source, Range target, Space from);
  void copy(Range source, Range target);
  void reduce(Range source, Range target);
  void finish(Range source, Range target);
  // Later puts use the links of this dimension (see Step::dimension), until the next call.
  void use_dimension(uint8_t dimension) {
    WEFT_DCHECK(dimension == kAnyDimension ||
                dimension < std::max<size_t>(1, shape_.dimensions.size()));
    dimension_ = dimension;
  }
  // Additions keep their order even if the shape allows any order: for algorithms where several
  // ranks compute the same sum and must get the same bits. Call before the first step.
  void keep_order() {
    WEFT_DCHECK(program_.steps.empty());
    shape_.any_order = false;
  }
  // Later steps depend on all receives of the current round: one partner at a time.
  void next_round();

  Program take_program();

 private:
  struct Use {
    uint64_t end = 0;
    int64_t writer = -1;
    std::vector<uint32_t> adders;   // since the last write
    size_t ordered_adders = 0;      // the first of `adders`, which precede a later read
    std::vector<uint32_t> readers;  // since the last write
  };
  enum class Access : uint8_t { read, write, add };
  using Uses = std::map<uint64_t, Use>;  // by first element; a gap was never used

  void add(Step step);
  void add_pieces(Step step);
  Range resolved(Range range) const;
  void depend_on_uses(const Range& range, Access access, std::vector<uint32_t>& found);
  void record_use(const Range& range, Access access, uint32_t step);
  void record_read(Use& use, uint32_t step);
  void record_add(Use& use, uint32_t step);
  void split(Uses& uses, uint64_t at);

  Shape shape_;
  uint32_t rank_;
  bool work_on_output_ = false;
  uint8_t dimension_ = kAnyDimension;
  Program program_;
  Uses uses_[3];
  std::vector<uint32_t> round_, previous_round_;  // indices of receives
};

}  // namespace weft::collective
