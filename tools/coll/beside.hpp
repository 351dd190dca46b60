// SPDX-License-Identifier: BSD-3-Clause
// Bulk all-reduces that run beside the measured calls, in a traffic class of their own.
#pragma once

#include <optional>
#include <vector>

#include "weft/collective.hpp"

namespace weft::bench {

class Beside {
 public:
  Beside(Communicator& group, uint64_t bytes, uint32_t traffic_class)
      : group_(group), traffic_class_(traffic_class), data_(bytes / sizeof(float)) {}
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  // Calls as many, the same on all ranks, and waits until the first is done.
  Result<void> begin(uint32_t calls);
  // Rank 0 cancels those that are left, and all ranks wait for that. Says what passed since then in
  // GB/s (bytes of the buffer), or nothing if no calls were left: then the last measured calls ran
  // alone.
  Result<std::optional<double>> end();

 private:
  Communicator& group_;
  uint32_t traffic_class_;
  std::vector<float> data_;
  std::vector<Operation> calls_;
  Instant begun_;  // when the first was done
};

}  // namespace weft::bench
