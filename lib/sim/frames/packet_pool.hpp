// SPDX-License-Identifier: BSD-3-Clause
// Frames in flight: copies in buffers of a pool that only grows. A buffer that was just given back
// is taken next, while it is in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/transport/frame.hpp"

namespace weft::sim {

struct Packet {
  // A frame of the largest RoCEv2 MTU, and what a fault may add to it.
  static constexpr uint32_t kCapacity = 4096 + 192;

  transport::Path path;
  uint32_t length = 0;  // of the frame
  uint16_t ip_id = 0;
  uint8_t ecn = 0;
  Packet* next = nullptr;  // in the pool's list, or in a queue
  std::byte bytes[kCapacity];
};

class PacketPool {
 public:
  Packet* take() {
    if (free_ == nullptr) grow();
    Packet* const packet = free_;
    free_ = packet->next;
    ++lent_;
    return packet;
  }
  void give(Packet* packet) noexcept {
    WEFT_DCHECK(packet != nullptr && packet != free_ && lent_ > 0);
    packet->next = free_;
    free_ = packet;
    --lent_;
  }
  size_t lent() const noexcept { return lent_; }

 private:
  static constexpr size_t kChunk = 64;
  void grow() {
    chunks_.emplace_back(new Packet[kChunk]);
    for (size_t i = kChunk; i-- > 0;) {
      Packet& packet = chunks_.back()[i];
      packet.next = free_;
      free_ = &packet;
    }
  }

  std::vector<std::unique_ptr<Packet[]>> chunks_;
  Packet* free_ = nullptr;
  size_t lent_ = 0;
};

// A queue of packets, oldest first.
class PacketQueue {
 public:
  bool empty() const noexcept { return head_ == nullptr; }
  size_t size() const noexcept { return size_; }
  void push(Packet* packet) noexcept {
    packet->next = nullptr;
    (head_ != nullptr ? tail_->next : head_) = packet;
    tail_ = packet;
    ++size_;
  }
  // Not when empty.
  Packet* pop() noexcept {
    WEFT_DCHECK(head_ != nullptr && size_ > 0);
    Packet* const packet = head_;
    head_ = packet->next;
    --size_;
    return packet;
  }

 private:
  Packet* head_ = nullptr;
  Packet* tail_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weft::sim
