// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: poll them, or sleep on their descriptor.
//
// To sleep: arm(); poll() once more and handle the completions; if there were none, wait until fd()
// is readable, then call acknowledge() and poll(). A completion that arrives after arm() makes fd()
// readable, so none is missed (//= roce:C-OPS-91). wait() does all of this.
//
// Engines. A device opened with engines=N (device.hpp) has N engines behind one address, for
// programs that serve connections on several cores. Each completion queue belongs to the engine
// named in its options. A queue pair belongs to the engine of its completion queues; its shared
// receive queue, memory windows and XRC domain must be on the same engine. A thread that uses the
// queues of one engine only shares no lock and no cache line with threads of other engines. So give
// each thread an engine with all its queues, and connect engine k to engine k of the peer. This is
// a matter of speed only: any thread may use any queue, at the cost of a contended lock, and any
// engine can reach any other. poll() makes progress for the engine of its queue only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "weft/device.hpp"
#include "weft/wr.hpp"

namespace weft {

namespace verbs {
class Cq;
}

// Attributes of a completion queue at creation.
struct CompletionQueueOptions {
  uint32_t capacity = 256;  // entries; an overrun raises the asynchronous event cq_error
  // Records the time of each completion, for the poll() with `times`. Providers roce and srd;
  // others: not_supported. A queue without timestamps has no cost from this.
  bool timestamps = false;
  // The engine that the queue and its queue pairs belong to, from 0.
  uint32_t engine = 0;
};

// Interrupt moderation of an armed queue: fd() becomes readable at the `count`th completion, or
// `period` after the first, whichever is earlier. Counted from the first arm() since the last
// wake-up, and only completions that would wake the queue (see Notify). On `ibverbs` the device
// decides when to count from. Both 0, the default: each such completion wakes the queue.
struct CqModeration {
  uint16_t count = 0;
  Duration period{};  // whole microseconds, at most 65,535
};

// Which completions wake an armed queue.
enum class Notify : uint8_t {
  all,
  solicited,  // receives of messages sent with SendFlags::solicited, and errors
};

// A handle of a completion queue. Copies name the same queue, which is destroyed with the last copy
// and the last queue pair that uses it. Any thread.
class CompletionQueue {
 public:
  CompletionQueue() = default;

  // Moves up to completions.size() completions into the span, oldest first; returns how many. Never
  // blocks. Makes progress for the engine if the queue is empty.
  size_t poll(std::span<Completion> completions) const noexcept;

  // The same with the time at which the device created each completion, on the clock of
  // Device::now(); in nanoseconds `(time - Instant{}).ns()`. Completions of one burst of received
  // packets (at most 64) have the same time. never() for a queue without
  // CompletionQueueOptions::timestamps. At most times.size() completions.
  size_t poll(std::span<Completion> completions, std::span<Instant> times) const noexcept;

  // Requests that the next completion make fd() readable, once. See verbs: ibv_req_notify_cq.
  void arm(Notify notify = Notify::all) const noexcept;
  // A descriptor that is readable after an armed queue got a completion. Owned by the queue.
  int fd() const noexcept;
  // Clears fd(), so that it is readable again only after the next arm(). Never blocks.
  void acknowledge() const noexcept;

  // Like poll(), but blocks until there is a completion or `limit` has passed (returns 0).
  size_t wait(std::span<Completion> completions,
              Duration limit = Duration::from_s(1'000'000)) const noexcept;

  // Its number, unique on the device, as in AsyncEvent::completion_queue.
  uint32_t number() const noexcept;
  // Entries that the queue can hold.
  uint32_t capacity() const noexcept;
  // Changes the capacity and keeps the completions in the queue. A device may give more than was
  // asked for. Errors: invalid_argument (0, or more than max_cqe), busy (it holds more completions
  // than that: poll first), no_memory. After an error the queue is unchanged. //= roce:C-OPS-91
  Result<void> resize(uint32_t capacity) const;
  // Sets the moderation of fd() and wait(). poll() is not affected. If events are held back at the
  // call, fd() becomes readable. With single_thread=1 the period ends only in progress() or poll().
  // Errors: invalid_argument (one of the two is 0 and the other is not, period out of range),
  // not_supported (a device behind `ibverbs` without moderation: rxe). See verbs: ibv_modify_cq.
  Result<void> moderate(const CqModeration& moderation) const;

  // For providers.
  const std::shared_ptr<verbs::Cq>& impl() const noexcept { return cq_; }

 private:
  friend class Device;
  std::shared_ptr<verbs::Cq> cq_;
};

}  // namespace weft
