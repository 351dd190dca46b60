// SPDX-License-Identifier: BSD-3-Clause
// Queue lengths as the reference measures them (HPCC simulator): every switch port every 100 ns,
// the accounted bytes of class 3 without the packet being sent, in KB of 1000 B, rounded down.
// Percentiles pool all ports and samples; per port there are median and maximum for each window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::flow {

class QueueSamples {
 public:
  // One port's window.
  struct Window {
    uint32_t port;
    uint32_t from;  // nodes
    uint32_t to;
    int64_t begin_ns;
    uint32_t median_kb;
    uint32_t most_kb;
  };

  QueueSamples() = default;
  QueueSamples(const fabric::Topology& topology, int64_t window_ns);

  void sample(int64_t now_ns, std::span<const fabric::Port> ports);
  void finish();

  uint64_t count() const noexcept { return count_; }
  // The smallest KB whose cumulative share is at least `share`; 0 without samples.
  uint64_t percentile_kb(double share) const noexcept;
  uint64_t most_kb() const noexcept;
  // Samples by KB.
  const std::vector<uint64_t>& histogram() const noexcept { return histogram_; }
  // Windows in which the port ever held 1 KB or more.
  std::span<const Window> windows() const noexcept { return windows_; }

 private:
  struct Watched {
    uint32_t port;
    uint32_t from;
    uint32_t to;
    std::vector<uint32_t> kb;  // samples of this window that are not 0
    uint32_t zeros = 0;        // and how many are
  };
  void close_window();

  std::vector<Watched> watched_;
  std::vector<uint64_t> histogram_;
  std::vector<Window> windows_;
  uint64_t count_ = 0;
  int64_t window_ns_ = 0;
  int64_t window_begin_ = 0;
};

}  // namespace weft::sim::flow
