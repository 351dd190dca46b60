// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: poll with a span, or sleep on a descriptor.
//
// To sleep: arm(); poll() once more and handle what is there; if there was nothing, wait until fd()
// is readable, then call acknowledge() and poll(). A completion that arrives after arm() makes fd()
// readable, so none is missed (//= roce:C-OPS-91). wait() does all of this.
//
// Engines. A device opened with engines=N (device.hpp) is N engines on one address, for programs
// that serve their connections on several cores. Each completion queue is on one of them, which its
// maker chooses, and a queue pair lives on the engine of its completion queues, both of which, and
// its shared receive queue, windows and XRC domain, must be on the same one. A thread that keeps to
// the queues of one engine shares no lock and no cache line of packets with threads of the others:
// give each thread an engine and there all its queues, and connect engine k to engine k of a peer
// that has several too. poll() runs the engine of its queue alone. Nothing says that it must be so:
// any thread may use any queue, at the price of a lock, and any engine reaches any.
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

struct CompletionQueueOptions {
  uint32_t capacity = 256;  // entries; overrun is the async event cq_error
  // Keeps the time of each completion, for the poll() with `times`. Providers roce and srd; others:
  // not_supported. A queue without it pays nothing.
  bool timestamps = false;
  // Which engine of a device with several it is on, from 0: its queue pairs live there.
  uint32_t engine = 0;
};

// How long an armed queue may go on sleeping though completions come, to be woken less often. Those
// are counted that would wake it without moderation (Notify), so with Notify::solicited the
// solicited ones and the errors, from the first arm() since it last woke (behind `ibverbs` as the
// device likes). At the `count`th of them, or `period` after the first, fd() becomes readable. Both
// 0: each wakes it, which is so at first.
struct CqModeration {
  uint16_t count = 0;
  Duration period;  // whole microseconds, at most 65,535
};

// Which completions wake an armed queue.
enum class Notify : uint8_t {
  all,
  solicited,  // only receives whose sender asked for it, and errors
};

class CompletionQueue {
 public:
  CompletionQueue() = default;

  // Moves up to completions.size() completions into the span; returns how many. Never blocks;
  // runs a turn of the engine first.
  size_t poll(std::span<Completion> completions) const noexcept;

  // The same with the time of each, on the clock of Device::now() (integer picoseconds, read in
  // nanoseconds with `(time - Instant{}).ns()`): when the device made the completion. All that one
  // burst of packets completed (up to 64 of them) has one time. Of a queue without
  // CompletionQueueOptions::timestamps it is never(). At most times.size() completions.
  size_t poll(std::span<Completion> completions, std::span<Instant> times) const noexcept;

  void arm(Notify notify = Notify::all) const noexcept;
  // Readable after an armed queue got a completion. Owned by the queue.
  int fd() const noexcept;
  // Makes fd() unreadable again.
  void acknowledge() const noexcept;

  // Blocks until there is at least one completion or `limit` has passed (then returns 0).
  size_t wait(std::span<Completion> completions,
              Duration limit = Duration::from_s(1'000'000)) const noexcept;

  uint32_t capacity() const noexcept;
  // Another capacity; completions that wait are kept. A device may give more than was asked for.
  // Errors: invalid_argument (0, or beyond the device's max_cqe), busy (more completions wait than
  // that: poll first), no_memory. The queue is as it was then. //= roce:C-OPS-91
  Result<void> resize(uint32_t capacity) const;
  // Moderates the waking of fd() and wait() from now on; polling sees each completion at once. Any
  // thread; a queue that holds some back wakes. With single_thread=1 the period ends in a turn of
  // the engine only. Errors: invalid_argument (one of the two is 0 and the other is not, a period
  // out of range), not_supported (a device behind `ibverbs` that cannot: rxe). Source: as
  // ibv_modify_cq.
  Result<void> moderate(const CqModeration& moderation) const;
  const std::shared_ptr<verbs::Cq>& impl() const noexcept { return cq_; }

 private:
  friend class Device;
  std::shared_ptr<verbs::Cq> cq_;
};

}  // namespace weft
