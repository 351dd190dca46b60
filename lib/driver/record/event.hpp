// SPDX-License-Identifier: BSD-3-Clause
// The layout of a flight record: a file that an engine writes while it runs, and that
// weft_postmortem reads, after a crash of the process too. A header and a ring of the last events.
//
// One process writes, under its driver's lock. A reader of a living process sees RecordHeader::next
// grow and drops what was overwritten meanwhile. Neither payload nor keys are in a record, only the
// part of each packet's headers that says what it is and where it belongs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/transport/counters.hpp"

namespace weft::driver {

enum class EventKind : uint8_t {
  sent = 1,  // a packet that the port took
  received,  // a packet that the port handed over, before any check
  counted,   // `head`: a transport::Count, not of traffic; `place`: by how much it grew
  failed,    // `head`: queue pair; `place`: weft::Status of a request that failed
  raised,    // `head`: queue pair or 0; `place`: weft::EventType
  state,     // `head`: queue pair; `place`: weft::QpState, or kDestroyed
};
inline constexpr uint64_t kDestroyed = 0xFF;  // `place` of EventKind::state

// Half a cache line. Of a packet `head` holds the first eight bytes, as they are in memory, and
// `place` the eight bytes from RecordHeader::place_offset on: RoCE's PSN and, of acknowledgements
// only, the AETH; SRD's sequence number. What a packet lacks, and all that is not of its headers,
// is 0.
struct RecordedEvent {
  static constexpr uint32_t kLengthBits = 22, kEcnShift = 22, kKindShift = 24;

  int64_t at_ps;  // on the process's clock
  uint64_t head, place;
  uint32_t peer;   // packets: the last four bytes of the peer's GID, as they are in memory
  uint32_t about;  // length of the packet, its two ECN bits, kind

  EventKind kind() const noexcept { return static_cast<EventKind>(about >> kKindShift); }
  uint32_t length() const noexcept { return about & ((1u << kLengthBits) - 1); }
  uint8_t ecn() const noexcept { return about >> kEcnShift & 3; }
  static uint32_t about_of(EventKind kind, uint32_t length, uint8_t ecn) noexcept {
    return (length & ((1u << kLengthBits) - 1)) | (ecn & 3u) << kEcnShift |
           uint32_t{static_cast<uint8_t>(kind)} << kKindShift;
  }
};
static_assert(sizeof(RecordedEvent) == 32);

// The same instant on two clocks.
struct ClockPair {
  int64_t own_ps;   // the process's clock
  int64_t wall_ns;  // CLOCK_REALTIME
};

inline constexpr char kRecordMagic[8] = {'w', 'e', 'f', 't', 'r', 'e', 'c', '1'};
inline constexpr uint32_t kRecordedEvents = 4096;  // a power of two

struct RecordHeader {
  char magic[8];
  uint32_t counters;  // transport::kCountEnd of the writer: counters are known by their numbers
  uint32_t capacity;  // events in the ring, a power of two
  int32_t process;
  uint32_t engine;             // of the device, from 0
  uint64_t process_space;      // inode of the process namespace that `process` is a number of
  uint64_t process_started;    // field 22 of /proc/PID/stat: tells processes of one number apart
  uint16_t udp_port;           // destination port of the protocol
  uint16_t place_offset;       // of RecordedEvent::place in a packet
  uint8_t address[16];         // GID of the device
  char program[32];            // of the process, zero-terminated as the next one
  char device[256];            // device string
  ClockPair clocks[2];         // the newest is [1]; [0] is a second older, or more
  std::atomic<uint64_t> next;  // events written so far; event n is at n % capacity
};
inline constexpr size_t kRecordHeaderSize = 512;
static_assert(sizeof(RecordHeader) <= kRecordHeaderSize);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

inline constexpr size_t kRecordSize = kRecordHeaderSize + kRecordedEvents * sizeof(RecordedEvent);

}  // namespace weft::driver
