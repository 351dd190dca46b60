// SPDX-License-Identifier: BSD-3-Clause
// Dispatch over racks: a row that goes to several experts of another rack crosses the cables
// between the racks once. It goes to the mirror rank there, the one of the same place in its rack,
// which makes the blocks for the ranks of its rack and passes them on. Inside a rack blocks go
// straight to where they belong. With one rack, or no rows that are alike, this is the direct
// all-to-all, with one stop on the way into other racks.
#include <algorithm>

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {
namespace {

class Dispatch {
 public:
  explicit Dispatch(Builder& builder)
      : b_(builder),
        shape_(builder.shape()),
        per_rack_(shape_.ranks / shape_.blocks.racks),
        rack_(builder.rank() / per_rack_),
        width_(shape_.blocks.width) {}

  void emit() {
    const uint32_t self = b_.rank();
    for_neighbours([&](uint32_t peer) {
      for_parts([&](uint32_t part) { b_.put(peer, given(shape_, self, peer, part)); });
    });
    for_other_racks([&](uint32_t rack) {
      for (const Run& run : distinct(self, rack)) b_.put(mirror(self, rack), elements(run));
    });
    for_parts([&](uint32_t part) {
      b_.copy(given(shape_, self, self, part), taken(shape_, self, self, part));
    });
    for_other_racks([&](uint32_t rack) { pass_on(mirror(self, rack)); });
    for_neighbours([&](uint32_t peer) {
      for_parts([&](uint32_t part) { b_.receive(peer, taken(shape_, peer, self, part)); });
      for_other_racks([&](uint32_t rack) {
        for_parts([&](uint32_t part) {
          b_.receive(peer, taken(shape_, mirror(peer, rack), self, part));
        });
      });
    });
  }

 private:
  struct Run {  // of rows of what a rank gives
    uint64_t first = 0;
    uint64_t count = 0;
  };

  template <class Call>
  void for_parts(Call call) const {
    for (uint32_t part = 0; part < shape_.blocks.parts; ++part) call(part);
  }
  template <class Call>
  void for_neighbours(Call call) const {
    for (uint32_t i = 1; i < per_rack_; ++i) call(rack_ * per_rack_ + (b_.rank() + i) % per_rack_);
  }
  template <class Call>
  void for_other_racks(Call call) const {
    for (uint32_t rack = 0; rack < shape_.blocks.racks; ++rack)
      if (rack != rack_) call(rack);
  }

  uint32_t mirror(uint32_t rank, uint32_t rack) const {
    return rack * per_rack_ + rank % per_rack_;
  }
  Range elements(const Run& run) const { return input(run.first * width_, run.count * width_); }
  Run rows(const Range& range) const { return {range.offset / width_, range.count / width_}; }

  // All rows for a rack; they lie together.
  Run rows_for(uint32_t from, uint32_t rack) const {
    const uint32_t last = (rack + 1) * per_rack_ - 1;
    Range all = given(shape_, from, rack * per_rack_);
    all.count = given(shape_, from, last, shape_.blocks.parts - 1).end() - all.offset;
    return rows(all);
  }

  // Those of them that are the first of their kind.
  std::vector<Run> distinct(uint32_t from, uint32_t rack) const {
    const Run all = rows_for(from, rack);
    std::vector<Run> runs;
    for (uint64_t row = all.first; row < all.first + all.count; ++row) {
      if (first_alike(shape_, from, row) != row) continue;
      if (!runs.empty() && runs.back().first + runs.back().count == row)
        ++runs.back().count;
      else
        runs.push_back({row, 1});
    }
    return runs;
  }

  // Takes the rows that `from` gives to this rack, and makes blocks of them.
  void pass_on(uint32_t from) {
    const Run all = rows_for(from, rack_);
    std::vector<uint64_t> place(all.count);  // in the work space
    for (const Run& run : distinct(from, rack_)) {
      b_.receive(from, work(work_, run.count * width_));
      for (uint64_t i = 0; i < run.count; ++i)
        place[run.first + i - all.first] = work_ + i * width_;
      work_ += run.count * width_;
    }
    for (uint64_t row = 0; row < all.count; ++row)
      place[row] = place[first_alike(shape_, from, all.first + row) - all.first];
    const auto make = [&](uint32_t to, uint32_t part, Range block) {
      const Run of_block = rows(given(shape_, from, to, part));
      for (uint64_t i = 0; i < of_block.count; ++i)
        b_.copy(work(place[of_block.first + i - all.first], width_),
                block.part(i * width_, width_));
    };
    for_parts([&](uint32_t part) { make(b_.rank(), part, taken(shape_, from, b_.rank(), part)); });
    for_neighbours([&](uint32_t to) {
      for_parts([&](uint32_t part) {
        const Range block = work(work_, given(shape_, from, to, part).count);
        work_ += block.count;
        make(to, part, block);
        b_.put(to, block);
      });
    });
  }

  Builder& b_;
  const Shape& shape_;
  uint32_t per_rack_, rack_;
  uint64_t width_;
  uint64_t work_ = 0;
};

}  // namespace

void racks_dispatch(Builder& b) { Dispatch(b).emit(); }

}  // namespace weft::collective
