// SPDX-License-Identifier: BSD-3-Clause
// Flight records as they are read: of a process that runs, or of one that has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/driver/record/event.hpp"
#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::postmortem {

struct Record {
  std::string path, program, device;
  int32_t process = 0;
  bool running = false;
  uint32_t engine = 0;
  uint16_t udp_port = 0;      // of the protocol
  uint16_t place_offset = 0;  // in packets, of RecordedEvent::place
  Gid address;
  uint64_t missing = 0;                       // older events that were overwritten
  std::vector<driver::RecordedEvent> events;  // oldest first
  driver::ClockPair clocks[2]{};

  // On CLOCK_REALTIME.
  int64_t wall_ns(const driver::RecordedEvent& event) const noexcept;
};

// Errors: not_found, permission_denied, invalid_argument (no record, or of another version).
Result<Record> read_record(const std::string& path);

// The records of this user.
std::vector<Record> all_records();

// The records that each of `names` names, a process or a file, in this order. Errors: not_found
// and those of read_record().
Result<std::vector<Record>> find_records(const std::vector<std::string>& names);

// Appends those of all_records() with which one of `records` has exchanged packets.
void add_peers(std::vector<Record>& records);

}  // namespace weft::postmortem
