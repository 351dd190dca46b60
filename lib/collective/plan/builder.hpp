// SPDX-License-Identifier: BSD-3-Clause
// Builder: an algorithm lists the steps of one rank in an order in which they could be executed one
// by one, and the dependencies follow from the memory they touch: a read waits for the last write,
// a write for the last write and the reads since. Where a shape asks for no order, what only adds
// to memory does not wait for what else adds to it, and what comes after waits for all of them.
// Steps of no elements and copies onto themselves vanish, and long transfers are cut into pieces,
// so that algorithms need no special cases.
#pragma once

#include <map>

#include "lib/collective/plan/schedule.hpp"

namespace weft::collective {

class Builder {
 public:
  Builder(const Shape& shape, uint32_t rank) : shape_(shape), rank_(rank) {}
  const Shape& shape() const { return shape_; }
  uint32_t rank() const { return rank_; }

  // work[x] and output[x] may be the same memory: no copy where accumulators are elements.
  // To be said before the first step.
  void work_on_output() { work_on_output_ = shape_.exact; }

  void put(uint32_t peer, Range source);
  // What the peer puts: `wide` as for its put of a range of the work space.
  void receive(uint32_t peer, Range target, Space from = Space::input);
  // target = incoming reduced with source.
  void receive_reduce(uint32_t peer, Range source, Range target, Space from);
  void copy(Range source, Range target);
  void reduce(Range source, Range target);
  void finish(Range source, Range target);
  // Puts from here on go by the links of this dimension (see Step), until told otherwise.
  void go_along(uint8_t dimension) { along_ = dimension; }
  // What adds to memory keeps its order, whatever the shape says: for algorithms where several
  // ranks compute the same sum, which is to be the same bits. To be said before the first step.
  void keep_order() { shape_.any_order = false; }
  // Steps from here on start after all receives until here: rounds with one partner at a time.
  void next_round();

  Program take();

 private:
  struct Use {
    uint64_t end = 0;
    int64_t writer = -1;
    std::vector<uint32_t> adders;  // since the last write
    size_t settled = 0;            // adders that a reader has waited for, and later ones do with it
    std::vector<uint32_t> readers;  // since the last write
  };
  enum class Access : uint8_t { read, write, add };
  using Uses = std::map<uint64_t, Use>;  // by first element; gaps were never used

  void add(Step step);
  void add_pieces(Step step);
  Range place(Range range) const;
  void depend_on_uses(const Range& range, Access access, std::vector<uint32_t>& found);
  void note_use(const Range& range, Access access, uint32_t step);
  void note_read(Use& use, uint32_t step);
  void note_add(Use& use, uint32_t step);
  void split(Uses& uses, uint64_t at);

  Shape shape_;
  uint32_t rank_;
  bool work_on_output_ = false;
  uint8_t along_ = kAnyWay;
  Program program_;
  Uses uses_[3];
  std::vector<uint32_t> round_, previous_round_;  // receives
};

}  // namespace weft::collective
