// SPDX-License-Identifier: BSD-3-Clause
// What the ids of an endpoint's work requests, and the cookies of its messages, say.
#pragma once

#include <cstdint>

namespace weft::fi {

// Whose work request it is; in the lower three bits of its id.
enum class RdmTask : uint8_t {
  message,   // a SEND of lib/message
  transfer,  // a READ of lib/message
  request,   // a READ or WRITE of the program
  own,       // a SEND of rdm/atomic.cpp
  buffer,    // a receive, by its number
};

struct RdmId {
  RdmId(RdmTask which, void* object) noexcept
      : task(which), number(reinterpret_cast<uintptr_t>(object) >> 3) {}
  RdmId(RdmTask which, uint64_t count) noexcept : task(which), number(count) {}
  static RdmId of(uint64_t id) noexcept { return {static_cast<RdmTask>(id & 7), id >> 3}; }
  uint64_t packed() const noexcept { return number << 3 | static_cast<uint64_t>(task); }
  void* pointer() const noexcept { return reinterpret_cast<void*>(number << 3); }
  RdmTask task;
  uint64_t number;  // of a buffer, or an address divided by 8
};

// The cookie of a message.
struct CompletionKind {
  bool reports = true;  // success goes to the completion queue
  bool many = false;    // FI_MULTI_RECV
  uint64_t packed() const noexcept { return (reports ? 1u : 0u) | (many ? 2u : 0u); }
  static CompletionKind of(uint64_t cookie) noexcept {
    return {(cookie & 1) != 0, (cookie & 2) != 0};
  }
};

// The first byte of messages beside those of lib/message.
enum class OwnKind : uint8_t { atomic = 64, atomic_answer, key, key_answer, event };

}  // namespace weft::fi
