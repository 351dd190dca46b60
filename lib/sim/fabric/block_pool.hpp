// SPDX-License-Identifier: BSD-3-Clause
// What packets carry besides themselves (telemetry, acknowledgement blocks, the frames of engines),
// named by a number that fits a packet. The pool only grows; what is given back is lent first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::sim::fabric {

template <class Block>
class BlockPool {
 public:
  uint32_t take() {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(blocks_.size()));
      blocks_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void give(uint32_t index) { free_.push_back(index); }
  Block& operator[](uint32_t index) noexcept { return blocks_[index]; }
  // How many are not here.
  size_t lent() const noexcept { return blocks_.size() - free_.size(); }

 private:
  std::vector<Block> blocks_;
  std::vector<uint32_t> free_;
};

}  // namespace weft::sim::fabric
