// SPDX-License-Identifier: BSD-3-Clause
// The memory region of all simulated hosts, for sends and WRITEs. Its pages are read only, and are
// mapped when they are first read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/sim/hosts/flow.hpp"
#include "weft/result.hpp"

namespace weft::sim::engines {

class Scratch {
 public:
  static constexpr uint64_t kLongest = uint64_t{1} << 30;  // of one WRITE

  // Enough for each of the flows, or for the longest WRITE.
  explicit Scratch(std::span<const flow::FlowSpec> flows);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

  // WRITEs that a flow of so many bytes takes.
  static uint32_t requests_of(uint64_t bytes) noexcept {
    return static_cast<uint32_t>((bytes + kLongest - 1) / kLongest);
  }

 private:
  std::byte* data_;
  size_t size_;
};

// A set-up call that can only fail by a mistake of this folder.
void must(const Result<void>& done);

}  // namespace weft::sim::engines
