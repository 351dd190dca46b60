// SPDX-License-Identifier: BSD-3-Clause
// What a driver has for the log: collected under its lock, written without it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/base/log/log.hpp"
#include "lib/transport/incidents.hpp"

namespace weft::driver {

class LogLines {
 public:
  explicit LogLines(base::Subsystem subsystem) noexcept : subsystem_(subsystem) {}

  bool empty() const noexcept { return lines_.empty(); }
  // Of the device with the address `local`. Lines beyond kMost, and those for which there is no
  // memory, are lost.
  void happened(const transport::Incident& incident, const Gid& local) noexcept;
  // Every packet of `peer` fails its ICRC.
  void fails_icrc(const Gid& peer, const Gid& local) noexcept;
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
