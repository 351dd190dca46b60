// SPDX-License-Identifier: BSD-3-Clause
// Data that packets refer to by an index (telemetry, acknowledgement blocks, frames of engines).
// The pool only grows; the block that was given back last is taken first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"

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
  void give(uint32_t index) {
    WEFT_DCHECK(index < blocks_.size() && free_.size() < blocks_.size());
    free_.push_back(index);
  }
  Block& operator[](uint32_t index) noexcept {
    WEFT_DCHECK(index < blocks_.size());
    return blocks_[index];
  }
  // Blocks taken and not given back.
  size_t lent() const noexcept { return blocks_.size() - free_.size(); }

 private:
  std::vector<Block> blocks_;
  std::vector<uint32_t> free_;
};

}  // namespace weft::sim::fabric
