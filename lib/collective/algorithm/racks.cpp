// SPDX-License-Identifier: BSD-3-Clause
// Dispatch over racks: a row for several experts of another rack crosses the cables between the
// racks once. It goes to the mirror rank there (the rank of the same place in that rack), which
// assembles the blocks for the ranks of its rack and forwards them. Inside a rack blocks go
// directly to their destination. With one rack this is the direct all-to-all.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

class Dispatch {
 public:
  explicit Dispatch(Builder& builder)
      : b_(builder),
        shape_(builder.shape()),
        per_rack_(shape_.ranks / shape_.blocks.racks),
        rack_(builder.rank() / per_rack_),
        width_(shape_.blocks.width) {
    WEFT_DCHECK(shape_.ranks % shape_.blocks.racks == 0 && width_ > 0);
  }

  void emit() {
    const uint32_t self = b_.rank();
    for_rack_peers([&](uint32_t peer) {
      for_parts([&](uint32_t part) { b_.put(peer, send_block(shape_, self, peer, part)); });
    });
    for_other_racks([&](uint32_t rack) {
      for (const Run& run : distinct_rows(self, rack)) b_.put(mirror(self, rack), elements(run));
    });
    for_parts([&](uint32_t part) {
      b_.copy(send_block(shape_, self, self, part), receive_block(shape_, self, self, part));
    });
    for_other_racks([&](uint32_t rack) { forward_rows(mirror(self, rack)); });
    for_rack_peers([&](uint32_t peer) {
      for_parts([&](uint32_t part) { b_.receive(peer, receive_block(shape_, peer, self, part)); });
      for_other_racks([&](uint32_t rack) {
        for_parts([&](uint32_t part) {
          b_.receive(peer, receive_block(shape_, mirror(peer, rack), self, part));
        });
      });
    });
  }

 private:
  struct Run {  // consecutive rows of a send buffer
    uint64_t first = 0;
    uint64_t count = 0;
  };

  template <class Call>
  void for_parts(Call call) const {
    for (uint32_t part = 0; part < shape_.blocks.parts; ++part) call(part);
  }
  template <class Call>
  void for_rack_peers(Call call) const {
    for (uint32_t i = 1; i < per_rack_; ++i) call(rack_ * per_rack_ + (b_.rank() + i) % per_rack_);
  }
  template <class Call>
  void for_other_racks(Call call) const {
    for (uint32_t rack = 0; rack < shape_.blocks.racks; ++rack)
      if (rack != rack_) call(rack);
  }

  uint32_t mirror(uint32_t rank, uint32_t rack) const {
    WEFT_DCHECK(rank < shape_.ranks && rack < shape_.blocks.racks);
    return rack * per_rack_ + rank % per_rack_;
  }
  Range elements(const Run& run) const { return input(run.first * width_, run.count * width_); }
  Run rows(const Range& range) const {
    WEFT_DCHECK(range.offset % width_ == 0 && range.count % width_ == 0);
    return {range.offset / width_, range.count / width_};
  }

  // All rows for a rack, which are consecutive.
  Run rows_for(uint32_t from, uint32_t rack) const {
    const uint32_t last = (rack + 1) * per_rack_ - 1;
    Range all = send_block(shape_, from, rack * per_rack_);
    all.count = send_block(shape_, from, last, shape_.blocks.parts - 1).end() - all.offset;
    return rows(all);
  }

  // The rows for a rack without repetitions.
  std::vector<Run> distinct_rows(uint32_t from, uint32_t rack) const {
    const Run all = rows_for(from, rack);
    std::vector<Run> runs;
    for (uint64_t row = all.first; row < all.first + all.count; ++row) {
      WEFT_DCHECK(first_equal_row(shape_, from, row) <= row);
      if (first_equal_row(shape_, from, row) != row) continue;
      if (!runs.empty() && runs.back().first + runs.back().count == row)
        ++runs.back().count;
      else
        runs.push_back({row, 1});
    }
    return runs;
  }

  // Receives the distinct rows that `from` sends to this rack, and builds the blocks of its ranks.
  void forward_rows(uint32_t from) {
    const Run all = rows_for(from, rack_);
    std::vector<uint64_t> place(all.count);  // in the work space
    for (const Run& run : distinct_rows(from, rack_)) {
      b_.receive(from, work(work_, run.count * width_));
      for (uint64_t i = 0; i < run.count; ++i)
        place[run.first + i - all.first] = work_ + i * width_;
      work_ += run.count * width_;
    }
    for (uint64_t row = 0; row < all.count; ++row)
      place[row] = place[first_equal_row(shape_, from, all.first + row) - all.first];
    const auto make = [&](uint32_t to, uint32_t part, Range block) {
      const Run of_block = rows(send_block(shape_, from, to, part));
      for (uint64_t i = 0; i < of_block.count; ++i)
        b_.copy(work(place[of_block.first + i - all.first], width_),
                block.part(i * width_, width_));
    };
    for_parts([&](uint32_t part) {
      make(b_.rank(), part, receive_block(shape_, from, b_.rank(), part));
    });
    for_rack_peers([&](uint32_t to) {
      for_parts([&](uint32_t part) {
        const Range block = work(work_, send_block(shape_, from, to, part).count);
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

static void racks_dispatch(Builder& b) { Dispatch(b).emit(); }

constexpr Algorithm kAlgorithms[] = {
    {"racks", Collective::dispatch, racks_dispatch, {.by_rack = true}, 170},
};
WEFT_ALGORITHMS(racks, kAlgorithms);

}  // namespace weft::collective
