// SPDX-License-Identifier: BSD-3-Clause
// Frames of a port to its own address, or to a group that it has joined: no wire brings them back.
#pragma once

#include <span>
#include <vector>

#include "providers/port/ethernet/frame_copy.hpp"

namespace weft::port::ethernet {

class LoopBack {
 public:
  bool empty() const noexcept { return waiting_.empty(); }

  // One that finds no room is lost, as on a wire.
  void add(const transport::TxFrame& frame) noexcept;
  // The oldest of those that wait, at most half of what there is room for: the wire shall be heard
  // too. Valid until release().
  size_t receive(std::span<transport::Frame> frames) noexcept;
  void release() noexcept { lent_.clear(); }

 private:
  static constexpr size_t kMost = 64;

  std::vector<FrameCopy> waiting_, lent_;
};

}  // namespace weft::port::ethernet
