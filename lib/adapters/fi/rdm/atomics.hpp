// SPDX-License-Identifier: BSD-3-Clause
// The atomics of an endpoint that are not answered, by number. A number comes again only after many
// others, so that an answer that comes late belongs to no other atomic.
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <vector>

#include "lib/adapters/fi/rdm/limits.hpp"
#include "lib/base/check.hpp"
#include "lib/message/match.hpp"

namespace weft::fi {

// An atomic of the program, until it is answered: rdm/atomic.cpp.
struct Atomic {
  void* context = nullptr;
  uint64_t flags = 0;  // of its completion
  bool reports = true;
  message::Peer peer = 0;
  std::array<iovec, kIovLimit> results{};
  size_t result_count = 0;
  uint32_t number = 0;
  bool in_use = false;
};

class Atomics {
 public:
  // A new one. Throws std::bad_alloc. At most kTransmitSize are in use.
  Atomic& take() {
    if (free_.empty()) {
      WEFT_CHECK(all_.size() < kTransmitSize);
      free_.reserve(all_.size() + 1);
      all_.push_back(std::make_unique<Atomic>());
      all_.back()->number = static_cast<uint32_t>(all_.size() - 1);
      free_.push_back(all_.back().get());
    }
    Atomic& atomic = *free_.back();
    free_.pop_back();
    WEFT_DCHECK(!atomic.in_use);
    atomic.in_use = true;
    atomic.number += kTransmitSize;  // the slot is the remainder
    return atomic;
  }
  void give(Atomic& atomic) noexcept {
    WEFT_DCHECK(atomic.in_use);
    atomic.in_use = false;
    free_.push_back(&atomic);
  }
  // That of a number, if it is in use; or null.
  Atomic* find(uint32_t number) noexcept {
    const size_t slot = number % kTransmitSize;
    if (slot >= all_.size() || all_[slot]->number != number || !all_[slot]->in_use) return nullptr;
    return all_[slot].get();
  }
  bool empty() const noexcept { return free_.size() == all_.size(); }
  // Calls f(Atomic&) of each; it may give it back.
  template <class F>
  void for_each(F f) {
    if (empty()) return;
    for (const auto& atomic : all_)
      if (atomic->in_use) f(*atomic);
  }

 private:
  static_assert((uint64_t{1} << 32) % kTransmitSize == 0);  // numbers wrap to the same slot
  std::vector<std::unique_ptr<Atomic>> all_;                // by slot
  std::vector<Atomic*> free_;
};

}  // namespace weft::fi
