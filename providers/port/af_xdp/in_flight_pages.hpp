// SPDX-License-Identifier: BSD-3-Clause
// Counts the umem frames in flight of each transmit buffer of two adjacent ones: the kernel
// completes umem frames one by one in any order, and a zero-copy driver may still read one while
// the other is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::port::af_xdp {

class InFlightPages {
 public:
  InFlightPages() = default;
  // `count` buffers of `size` bytes each, from address `first` on.
  InFlightPages(uint64_t first, uint64_t size, size_t count)
      : first_(first), size_(size), pieces_(count) {}

  void send(uint64_t buffer, uint8_t pieces) noexcept { pieces_[place_of(buffer)] = pieces; }

  // The umem frame at `address` is complete. True: its whole buffer is, buffer_of(address).
  bool complete(uint64_t address) noexcept { return --pieces_[place_of(address)] == 0; }

  uint64_t buffer_of(uint64_t address) const noexcept { return first_ + place_of(address) * size_; }

 private:
  size_t place_of(uint64_t address) const noexcept { return (address - first_) / size_; }

  uint64_t first_ = 0, size_ = 1;
  std::vector<uint8_t> pieces_;  // of each buffer
};

}  // namespace weft::port::af_xdp
