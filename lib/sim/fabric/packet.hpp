// SPDX-License-Identifier: BSD-3-Clause
// A packet of the fabric, which is an event too: 32 bytes that are moved by value from the event
// wheel to a queue and back, without allocation or pointers; the wheel and the queues are read in
// order. Only the length of a frame is simulated; hosts with engines keep its bytes in a pool and
// the index in `number`.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/base/check.hpp"

namespace weft::sim::fabric {

enum class Event : uint8_t {
  data,
  ack,
  nak,
  trimmed,       // the header of a data packet that met a full queue
  credit_grant,  // from the receiver
  probe,         // from a sender: requests credit and an acknowledgement
  pause,         // PFC frames: `target` is the port that they pause or resume
  resume,
  port_free,    // `target`: a switch's port that may send the next packet
  nic_wake,     // `target`: a host's port
  flow_start,   // the next flows of the list
  flow_timer,   // `flow`: its controller's deadline or its RTO
  host_timer,   // `target`: a host that may grant credit
  link_change,  // a link fails or changes, or routing detects that
  task_start,   // tasks of jobs that begin or end without a message
};

constexpr bool is_packet(Event event) { return event <= Event::probe; }
constexpr bool is_forward(Event event) {  // from the flow's source to its destination
  return event == Event::data || event == Event::trimmed || event == Event::probe;
}

struct Packet {
  int64_t at;       // ps: arrival of its last bit
  uint32_t target;  // the egress port at the next switch; at its destination, the host's node
  union {
    uint32_t ingress;  // the port (of the same cable) that it came in through
    uint32_t entropy;  // of a sprayed packet: its entropy value, and flags (spray.hpp)
  };
  uint32_t flow;
  uint32_t number;  // data: which packet of the flow; ack, nak: how many arrived in order
  uint32_t stamp;   // time of sending in ns, or the index of the telemetry or acknowledgement block
  uint16_t bytes;   // on the wire
  struct Tag {
    Event event : 4;
    bool marked : 1;   // ECN, or its echo
    bool cnp : 1;      // an acknowledgement that carries a CNP
    bool control : 1;  // class 0: strictly first, never paused, not accounted
    bool at_host : 1;  // the next node is the end
  } tag;
  uint8_t hop;  // ports passed
};
static_assert(sizeof(Packet) == 32);

// Memory of all Fifos of one simulation. Chunks are reused last in, first out, while they are in
// the cache; the pool only grows.
class ChunkPool {
 public:
  static constexpr uint32_t kPackets = 7;
  struct alignas(64) Chunk {
    Packet packets[kPackets];
    Chunk* next;
  };

  Chunk* take() {
    if (free_ == nullptr) grow();
    WEFT_DCHECK(free_ != nullptr);
    Chunk* const chunk = std::exchange(free_, free_->next);
    chunk->next = nullptr;
    return chunk;
  }
  void give(Chunk* chunk) noexcept {
    WEFT_DCHECK(chunk != nullptr && chunk != free_);
    chunk->next = free_;
    free_ = chunk;
  }

 private:
  void grow() {
    constexpr size_t kBlock = 256;
    blocks_.emplace_back(new Chunk[kBlock]);
    for (size_t i = kBlock; i-- > 0;) give(&blocks_.back()[i]);
  }
  std::vector<std::unique_ptr<Chunk[]>> blocks_;
  Chunk* free_ = nullptr;
};

// A queue of packets in chunks.
class Fifo {
 public:
  bool empty() const noexcept { return size_ == 0; }
  uint32_t size() const noexcept { return size_; }

  void push(const Packet& packet, ChunkPool& pool) { place(pool) = packet; }
  // Room for one more, to be filled in place: a packet that was just changed field by field is
  // copied fastest that way too (wider loads would wait for the narrow stores).
  Packet& place(ChunkPool& pool) {
    if (tail_ == nullptr) {
      head_ = tail_ = pool.take();
      begin_ = end_ = 0;
    } else if (end_ == ChunkPool::kPackets) {
      tail_ = tail_->next = pool.take();
      end_ = 0;
    }
    ++size_;
    return tail_->packets[end_++];
  }
  Packet& front() noexcept {
    WEFT_DCHECK(size_ > 0);
    return head_->packets[begin_];
  }
  const Packet& front() const noexcept { return head_->packets[begin_]; }
  Packet& back() noexcept {
    WEFT_DCHECK(size_ > 0 && end_ > 0);
    return tail_->packets[end_ - 1];
  }
  // Not when empty.
  Packet pop(ChunkPool& pool) noexcept {
    WEFT_DCHECK(size_ > 0);
    const Packet packet = head_->packets[begin_++];
    if (--size_ == 0) {
      pool.give(head_);
      head_ = tail_ = nullptr;
    } else if (begin_ == ChunkPool::kPackets) {
      pool.give(std::exchange(head_, head_->next));
      begin_ = 0;
    }
    return packet;
  }
  // Moves everything to the end of `out`.
  void drain(std::vector<Packet>& out, ChunkPool& pool) {
    while (size_ > 0) {
      __builtin_prefetch(head_->next);
      const uint32_t end = head_ == tail_ ? end_ : ChunkPool::kPackets;
      out.insert(out.end(), head_->packets + begin_, head_->packets + end);
      size_ -= end - begin_;
      begin_ = 0;
      pool.give(std::exchange(head_, head_->next));
    }
    head_ = tail_ = nullptr;
  }
  // Loads the first packets into the cache.
  void prefetch() const noexcept {
    __builtin_prefetch(head_);
    __builtin_prefetch(reinterpret_cast<const char*>(head_) + 64);
    __builtin_prefetch(reinterpret_cast<const char*>(head_) + 128);
    __builtin_prefetch(reinterpret_cast<const char*>(head_) + 192);
  }
  template <class Visit>
  void each(Visit visit) const {
    uint32_t at = begin_;
    const ChunkPool::Chunk* chunk = head_;
    for (uint32_t left = size_; left > 0; --left) {
      visit(chunk->packets[at]);
      if (++at == ChunkPool::kPackets) {
        chunk = chunk->next;
        at = 0;
      }
    }
  }

 private:
  ChunkPool::Chunk* head_ = nullptr;
  ChunkPool::Chunk* tail_ = nullptr;
  uint32_t size_ = 0;
  uint16_t begin_ = 0;  // in the first chunk
  uint16_t end_ = 0;    // in the last chunk
};
static_assert(sizeof(Fifo) == 24);

}  // namespace weft::sim::fabric
