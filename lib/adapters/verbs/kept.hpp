// SPDX-License-Identifier: BSD-3-Clause
// Completions that were taken out of a completion queue before the program polled them; they are
// polled first. ibv_start_poll takes what is there at that time, and those of other queue pairs are
// taken out when the completions of one are dropped.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "lib/adapters/verbs/batch.hpp"
#include "lib/base/check.hpp"
#include "weft/cq.hpp"

namespace weft::drop_in {

// Any thread.
class KeptCompletions {
 public:
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  size_t size() noexcept;
  // Moves up to `wanted` to the arrays, oldest first; `times` may be null.
  size_t take(Completion* completions, Instant* times, size_t wanted) noexcept;
  // Keeps up to kBatch completions of the queue, if it keeps none. Returns how many.
  size_t fetch(const CompletionQueue& queue) noexcept;
  // Forgets the completions of a queue pair, and keeps the others of `queue`. Throws
  // std::bad_alloc.
  void drop(uint32_t qp_num, const CompletionQueue& queue);

 private:
  void set_any() noexcept {
    WEFT_DCHECK(fetched_at_ <= fetched_end_ && fetched_end_ <= kBatch);
    any_ = fetched_at_ < fetched_end_ || !others_.empty();
  }

  std::atomic<bool> any_{false};
  std::mutex lock_;  // of all below
  std::array<Completion, kBatch> fetched_{};
  std::array<Instant, kBatch> fetched_times_{};
  size_t fetched_at_ = 0, fetched_end_ = 0;
  std::deque<std::pair<Completion, Instant>> others_;  // later than `fetched_`
};

}  // namespace weft::drop_in
