// SPDX-License-Identifier: BSD-3-Clause
// Frames that a port sends to its own address or to a group that it has joined: the network does
// not deliver them to their sender.
#pragma once

#include <span>
#include <vector>

#include "providers/port/ethernet/frame_copy.hpp"

namespace weft::port::ethernet {

class LoopBack {
 public:
  bool empty() const noexcept { return waiting_.empty(); }

  // A frame that finds the queue full is dropped.
  void add(const transport::TxFrame& frame) noexcept;
  // The oldest queued frames, at most half of `frames`, which leaves room for frames from the
  // network. Valid until release().
  size_t receive(std::span<transport::Frame> frames) noexcept;
  void release() noexcept { lent_.clear(); }

 private:
  static constexpr size_t kMost = 64;

  std::vector<FrameCopy> waiting_, lent_;
};

}  // namespace weft::port::ethernet
