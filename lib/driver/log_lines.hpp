// SPDX-License-Identifier: BSD-3-Clause
// What a driver has for the log: collected under its lock, written without it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/base/log/log.hpp"
#include "lib/transport/machine.hpp"

namespace weft::driver {

class LogLines {
 public:
  explicit LogLines(base::Subsystem subsystem) noexcept : subsystem_(subsystem) {}

  bool empty() const noexcept { return lines_.empty(); }
  // The incidents that have no time yet, and the peers whose packets fail the ICRC. Lines beyond
  // kMost, and those for which there is no memory, are lost.
  void collect(transport::Machine& machine, const Gid& local) noexcept;
  // The lines so far; none are left here.
  LogLines take() noexcept { return std::exchange(*this, LogLines(subsystem_)); }
  void write() const noexcept;

 private:
  static constexpr size_t kMost = 64;
  struct Line {
    LogLevel level = LogLevel::info;
    std::string text;
  };

  void add(LogLevel level, std::string text);

  base::Subsystem subsystem_;
  std::vector<Line> lines_;
};

}  // namespace weft::driver
