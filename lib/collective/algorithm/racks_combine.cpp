// SPDX-License-Identifier: BSD-3-Clause
// Combine over racks, the part inside them: every rank gets the rows of its own rack's experts for
// its own tokens, in the output, and for the tokens of its mirror ranks in other racks, in the work
// space: the mirrors' rows for this rack one after the other, in the order of racks, each in the
// order of what that rank gave in the dispatch. Partial sums of these then cross in a call of their
// own (moe_combine_racks.cpp). With one rack this is the direct all-to-all.
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {
namespace {

class Combine {
 public:
  explicit Combine(Builder& builder)
      : b_(builder),
        shape_(builder.shape()),
        per_rack_(shape_.ranks / shape_.blocks.racks),
        rack_(builder.rank() / per_rack_) {
    uint64_t work_used = 0;
    for (uint32_t rack = 0; rack < shape_.blocks.racks; ++rack) {
      begins_.push_back(work_used);
      if (rack != rack_) work_used += rows_for(mirror(b_.rank(), rack));
    }
  }

  void emit() {
    const uint32_t self = b_.rank();
    for_neighbours([&](uint32_t peer) {
      for_blocks([&](uint32_t part, uint32_t rack) {
        b_.put(peer, given(shape_, self, mirror(peer, rack), part));
      });
    });
    for_blocks([&](uint32_t part, uint32_t rack) {
      b_.copy(given(shape_, self, mirror(self, rack), part), place_of(self, part, rack));
    });
    for_neighbours([&](uint32_t peer) {
      for_blocks(
          [&](uint32_t part, uint32_t rack) { b_.receive(peer, place_of(peer, part, rack)); });
    });
  }

 private:
  template <class Call>
  void for_neighbours(Call call) const {
    for (uint32_t i = 1; i < per_rack_; ++i) call(rack_ * per_rack_ + (b_.rank() + i) % per_rack_);
  }
  template <class Call>
  void for_blocks(Call call) const {
    for (uint32_t part = 0; part < shape_.blocks.parts; ++part)
      for (uint32_t rack = 0; rack < shape_.blocks.racks; ++rack) call(part, rack);
  }

  uint32_t mirror(uint32_t rank, uint32_t rack) const {
    return rack * per_rack_ + rank % per_rack_;
  }
  // Where `to`, for whom rows come back, has those of the first expert of this rack.
  uint64_t first_for(uint32_t to) const { return taken(shape_, rack_ * per_rack_, to).offset; }
  uint64_t rows_for(uint32_t to) const {
    const uint32_t last = (rack_ + 1) * per_rack_ - 1;
    return taken(shape_, last, to, shape_.blocks.parts - 1).end() - first_for(to);
  }
  // What an expert of this rack made of tokens of this rank, or of its mirror in another rack.
  Range place_of(uint32_t expert_rank, uint32_t part, uint32_t rack) const {
    const uint32_t to = mirror(b_.rank(), rack);
    const Range own = taken(shape_, expert_rank, to, part);
    if (rack == rack_) return own;
    return work(begins_[rack] + own.offset - first_for(to), own.count);
  }

  Builder& b_;
  const Shape& shape_;
  uint32_t per_rack_, rack_;
  std::vector<uint64_t> begins_;  // of the mirrors' rows in the work space, by rack
};

}  // namespace

void racks_combine(Builder& b) { Combine(b).emit(); }

}  // namespace weft::collective
