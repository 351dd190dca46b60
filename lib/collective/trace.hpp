// SPDX-License-Identifier: BSD-3-Clause
// What a rank did lately: a ring of records, one for each operation, always on.
#pragma once

#include <array>
#include <string>

#include "lib/collective/call.hpp"
#include "weft/units.hpp"

namespace weft::collective {

struct Record {
  Call call;
  std::string_view algorithm;  // of the table of algorithms
  Duration predicted;          // zero: not
  Instant issued, started, ended;
  bool failed = false;
  uint64_t placed = 0;  // pieces that came to their final place, copied by nobody
};

class Trace {
 public:
  void add(const Record& record) { ring_[added_++ % ring_.size()] = record; }
  // Chrome's trace format; times in us of CLOCK_MONOTONIC. `rank` is the process there.
  std::string to_json(uint32_t rank) const;

 private:
  std::array<Record, 256> ring_{};
  uint64_t added_ = 0;
};

}  // namespace weft::collective
