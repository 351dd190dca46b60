// SPDX-License-Identifier: BSD-3-Clause
// Messages beside those of lib/message, big endian; values of atomics are as they lie in memory.
#pragma once

#include <cstdint>

#include "lib/base/bytes.hpp"

namespace weft::fi {

// Behind it: `count` operands (none for FI_ATOMIC_READ), then `count` values to compare with
// (AtomicForm::compare).
struct AtomicRequest {
  uint8_t kind;  // OwnKind::atomic
  uint8_t form;  // AtomicForm
  uint8_t op;
  uint8_t type;
  base::BigEndian<uint32_t> number;  // of the asker's choice
  base::BigEndian<uint64_t> address;
  base::BigEndian<uint64_t> key;
  base::BigEndian<uint32_t> count;
};
static_assert(sizeof(AtomicRequest) == 28);

// Behind it: the former values, but for AtomicForm::write.
struct AtomicAnswer {
  uint8_t kind;    // OwnKind::atomic_answer
  uint8_t status;  // a Status: 0 is success
  uint8_t unused[2];
  base::BigEndian<uint32_t> number;
};
static_assert(sizeof(AtomicAnswer) == 8);

// What does a key of the program's choice stand for?
struct KeyQuestion {
  uint8_t kind;  // OwnKind::key
  uint8_t unused[7];
  base::BigEndian<uint64_t> key;
};
static_assert(sizeof(KeyQuestion) == 16);

struct KeyAnswer {
  uint8_t kind;           // OwnKind::key_answer
  uint8_t status;         // 0: there is such a region
  uint8_t counts_events;  // 1: RemoteEvent is wanted
  uint8_t unused;
  base::BigEndian<uint32_t> rkey;
  base::BigEndian<uint64_t> key;   // that was asked for
  base::BigEndian<uint64_t> base;  // to be added to addresses
};
static_assert(sizeof(KeyAnswer) == 24);

// A READ or WRITE of the sender has been executed: a target is told of none by SRD. Only where the
// key says that it counts them.
struct RemoteEvent {
  uint8_t kind;      // OwnKind::event
  uint8_t is_write;  // 0: a READ
  uint8_t unused[6];
  base::BigEndian<uint64_t> key;
};
static_assert(sizeof(RemoteEvent) == 16);

}  // namespace weft::fi
