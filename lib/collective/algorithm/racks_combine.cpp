// SPDX-License-Identifier: BSD-3-Clause
// Combine over racks, the part inside each rack: every rank receives the rows of its own rack's
// experts for its own tokens in the output, and for the tokens of its mirror ranks in other racks
// in the work space: mirror by mirror in the order of racks, each in the order of that rank's
// dispatch. A separate call then sends partial sums between racks (moe_combine_racks.cpp). With one
// rack this is the direct all-to-all.
#include "lib/base/check.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

class Combine {
 public:
  explicit Combine(Builder& builder)
      : b_(builder),
        shape_(builder.shape()),
        per_rack_(shape_.ranks / shape_.blocks.racks),
        rack_(builder.rank() / per_rack_) {
    WEFT_DCHECK(shape_.ranks % shape_.blocks.racks == 0);
    uint64_t work_used = 0;
    for (uint32_t rack = 0; rack < shape_.blocks.racks; ++rack) {
      work_begins_.push_back(work_used);
      if (rack != rack_) work_used += rows_for(mirror(b_.rank(), rack));
    }
  }

  void emit() {
    const uint32_t self = b_.rank();
    for_rack_peers([&](uint32_t peer) {
      for_blocks([&](uint32_t part, uint32_t rack) {
        b_.put(peer, send_block(shape_, self, mirror(peer, rack), part));
      });
    });
    for_blocks([&](uint32_t part, uint32_t rack) {
      b_.copy(send_block(shape_, self, mirror(self, rack), part), target_block(self, part, rack));
    });
    for_rack_peers([&](uint32_t peer) {
      for_blocks(
          [&](uint32_t part, uint32_t rack) { b_.receive(peer, target_block(peer, part, rack)); });
    });
  }

 private:
  template <class Call>
  void for_rack_peers(Call call) const {
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
  // Offset of the rows of this rack's first expert in the output of `to`.
  uint64_t first_for(uint32_t to) const {
    return receive_block(shape_, rack_ * per_rack_, to).offset;
  }
  uint64_t rows_for(uint32_t to) const {
    const uint32_t last = (rack_ + 1) * per_rack_ - 1;
    return receive_block(shape_, last, to, shape_.blocks.parts - 1).end() - first_for(to);
  }
  // Where to receive the rows of an expert of this rack for the tokens of this rank (rack == rack_)
  // or of its mirror rank in another rack.
  Range target_block(uint32_t expert_rank, uint32_t part, uint32_t rack) const {
    const uint32_t to = mirror(b_.rank(), rack);
    const Range own = receive_block(shape_, expert_rank, to, part);
    if (rack == rack_) return own;
    WEFT_DCHECK(own.offset >= first_for(to));
    return work(work_begins_[rack] + own.offset - first_for(to), own.count);
  }

  Builder& b_;
  const Shape& shape_;
  uint32_t per_rack_, rack_;
  std::vector<uint64_t> work_begins_;  // of the mirrors' rows in the work space, by rack
};

}  // namespace

static void racks_combine(Builder& b) { Combine(b).emit(); }

constexpr Algorithm kAlgorithms[] = {
    {"racks", Collective::combine, racks_combine, {.by_rack = true}, 170},
};
WEFT_ALGORITHMS(racks_combine, kAlgorithms);

}  // namespace weft::collective
