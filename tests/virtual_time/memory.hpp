// SPDX-License-Identifier: BSD-3-Clause
// Memory for simulated hosts, at an address that is the same in every run: addresses travel in
// RETHs, so the event hash depends on them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::test {

class Memory {
 public:
  // `slot` names the place: two live Memories have different ones, or the second lies somewhere
  // else.
  Memory(uint32_t slot, size_t size);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

 private:
  std::byte* data_;
  size_t size_;
};

}  // namespace weft::test
