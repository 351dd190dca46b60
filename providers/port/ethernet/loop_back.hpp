// SPDX-License-Identifier: BSD-3-Clause
// Frames of a port to its own address, or to a group that it has joined: no wire brings them back.
#pragma once

#include <span>
#include <vector>

#include "lib/engine/frame.hpp"

namespace weft::port::ethernet {

class LoopBack {
 public:
  bool empty() const noexcept { return waiting_.empty(); }

  // One that finds no room is lost, as on a wire.
  void add(const engine::TxFrame& frame) noexcept;
  // All that wait, at most; they stay valid until release(). What does not fit is lost.
  size_t receive(std::span<engine::Frame> frames) noexcept;
  void release() noexcept { lent_.clear(); }

 private:
  static constexpr size_t kMost = 64;

  struct Copy {
    engine::Path path;
    std::vector<std::byte> bytes;
    uint16_t ip_id = 0;
    uint8_t ecn = 0;
  };
  std::vector<Copy> waiting_, lent_;
};

}  // namespace weft::port::ethernet
