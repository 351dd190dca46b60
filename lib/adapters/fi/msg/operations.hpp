// SPDX-License-Identifier: BSD-3-Clause
// The operations of a queue that have not completed: a table of fixed size. The work request's id
// names the entry and the endpoint that posted it, so that completions of an endpoint that is
// closed are told from those of another one with its queue pair number.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/base/check.hpp"

namespace weft::fi {

struct Operation {
  void* context = nullptr;
  uint64_t flags = 0;   // of its completion: FI_SEND | FI_MSG ..
  bool reports = true;  // success goes to the completion queue
};

// Any thread.
class Operations {
 public:
  // Allocates; not while operations are outstanding.
  void create(size_t size) {
    WEFT_CHECK(empty());
    table_.resize(size);
    free_.clear();
    free_.reserve(size);
    for (size_t i = size; i-- > 0;) free_.push_back(static_cast<uint32_t>(i));
  }
  // An entry with a copy of `operation`; nothing if all are taken.
  std::optional<uint32_t> take(const Operation& operation) noexcept {
    const std::lock_guard hold(lock_);
    if (free_.empty()) return {};
    const uint32_t index = free_.back();
    free_.pop_back();
    table_[index] = operation;
    return index;
  }
  // Whether operations are outstanding.
  bool empty() noexcept {
    const std::lock_guard hold(lock_);
    return free_.size() == table_.size();
  }
  // Frees the entry and returns it.
  Operation finish(uint32_t index) noexcept {
    const std::lock_guard hold(lock_);
    WEFT_CHECK(index < table_.size() && free_.size() < table_.size());
    free_.push_back(index);
    return table_[index];
  }

 private:
  std::mutex lock_;
  std::vector<Operation> table_;
  std::vector<uint32_t> free_;  // never grows
};

// Ids of work requests.
struct RequestId {
  uint32_t owner = 0;  // Ep::number or SharedReceive::number
  uint32_t index = 0;  // in Operations
  uint64_t packed() const noexcept { return uint64_t{owner} << 32 | index; }
  static RequestId of(uint64_t id) noexcept {
    return {static_cast<uint32_t>(id >> 32), static_cast<uint32_t>(id)};
  }
};

}  // namespace weft::fi
