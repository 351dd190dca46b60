// SPDX-License-Identifier: BSD-3-Clause
// Bulk all-reduces that run concurrently with the measured calls, in another traffic class.
#pragma once

#include <optional>
#include <vector>

#include "weft/collective.hpp"

namespace weft::bench {

class BackgroundCalls {
 public:
  BackgroundCalls(Communicator& group, uint64_t bytes, uint32_t traffic_class)
      : group_(group), traffic_class_(traffic_class), data_(bytes / sizeof(float)) {}
  BackgroundCalls(const BackgroundCalls&) = delete;
  BackgroundCalls& operator=(const BackgroundCalls&) = delete;

  // Issues `calls` all-reduces (the same number on all ranks) and waits until the first is done.
  Result<void> start(uint32_t calls);
  // Rank 0 cancels the remaining calls, and all ranks wait for it. Returns the bandwidth since the
  // first call in GB/s (bytes of the buffer); nothing if all calls had ended before, because then
  // the last measured calls ran without background traffic.
  Result<std::optional<double>> stop();

 private:
  Communicator& group_;
  uint32_t traffic_class_;
  std::vector<float> data_;
  std::vector<Operation> calls_;
  Instant started_at_;  // completion of the first call
};

}  // namespace weft::bench
