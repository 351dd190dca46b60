// SPDX-License-Identifier: BSD-3-Clause
// MADs to send, in FIFO order.
#pragma once

#include <deque>

#include "lib/base/memory_permitting.hpp"
#include "lib/roce/cm/mad.hpp"
#include "lib/roce/state/general_services.hpp"

namespace weft::cm {

class Outbox {
 public:
  bool empty() const noexcept { return queue_.empty(); }
  // For MADs of the application and its connections, whose number bounds them. False: no memory.
  bool push(const Gid& to, const Mad& mad) noexcept {
    return base::memory_permitting([&] { queue_.push_back({to, mad}); });
  }
  // For responses that unauthenticated senders can cause at any rate: false if many are queued.
  // What is dropped is requested again. //= threat:A17
  bool push_bounded(const Gid& to, const Mad& mad) noexcept {
    return queue_.size() < kMostResponses && push(to, mad);
  }
  // The next to send, valid until the next call; nullptr: none.
  const roce::ManagementDatagram* pop() noexcept {
    if (queue_.empty()) return nullptr;
    sending_ = queue_.front();
    queue_.pop_front();
    return &sending_;
  }

 private:
  static constexpr size_t kMostResponses = 256;

  std::deque<roce::ManagementDatagram> queue_;
  roce::ManagementDatagram sending_;
};

}  // namespace weft::cm
