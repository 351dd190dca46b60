// SPDX-License-Identifier: BSD-3-Clause
// Which pages of two that lie side by side, and hold a frame together, are still to be sent: the
// kernel gives pages back one by one, in no order that it promises, and a driver without copies may
// read the one while the other is back already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::port::af_xdp {

class UnderWay {
 public:
  UnderWay() = default;
  // `count` buffers of `size` bytes each, from address `first` on.
  UnderWay(uint64_t first, uint64_t size, size_t count)
      : first_(first), size_(size), pieces_(count) {}

  void send(uint64_t buffer, uint8_t pieces) noexcept { pieces_[place_of(buffer)] = pieces; }

  // The piece at this address has left. True: it was the last of its buffer, buffer_of() it.
  bool complete(uint64_t address) noexcept { return --pieces_[place_of(address)] == 0; }

  uint64_t buffer_of(uint64_t address) const noexcept { return first_ + place_of(address) * size_; }

 private:
  size_t place_of(uint64_t address) const noexcept { return (address - first_) / size_; }

  uint64_t first_ = 0, size_ = 1;
  std::vector<uint8_t> pieces_;  // of each buffer
};

}  // namespace weft::port::af_xdp
