// SPDX-License-Identifier: BSD-3-Clause
// Time series of a run: rates of selected flows and the longest queue. The interval doubles when
// there are kMostPoints, so a run of any length has a few hundred.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"

namespace weft::sim::flow {

class Series {
 public:
  static constexpr size_t kFlows = 8;
  static constexpr size_t kMostPoints = 512;

  struct Point {
    int64_t at_ns;
    uint32_t longest_queue;            // bytes of class 3, of all switch ports
    std::array<float, kFlows> gbps{};  // 0: not started, or done
  };

  // The time of the next point, in ns.
  int64_t next_ns() const noexcept { return next_ns_; }
  void add(Point point) {
    WEFT_DCHECK(points_.empty() || point.at_ns > points_.back().at_ns);
    points_.push_back(point);
    if (points_.size() == kMostPoints) {
      for (size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
      points_.resize(points_.size() / 2);
      interval_ns_ *= 2;
    }
    next_ns_ = points_.back().at_ns + interval_ns_;
  }
  const std::vector<Point>& points() const noexcept { return points_; }

 private:
  std::vector<Point> points_;
  int64_t interval_ns_ = 250;
  int64_t next_ns_ = 0;
};

}  // namespace weft::sim::flow
