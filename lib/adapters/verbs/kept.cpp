// SPDX-License-Identifier: BSD-3-Clause
// See kept.hpp.
#include "lib/adapters/verbs/kept.hpp"

#include <algorithm>

namespace weft::drop_in {

size_t KeptCompletions::size() noexcept {
  const std::lock_guard guard(lock_);
  return fetched_end_ - fetched_at_ + others_.size();
}

size_t KeptCompletions::take(Completion* completions, Instant* times, size_t wanted) noexcept {
  const std::lock_guard guard(lock_);
  size_t count = 0;
  const auto add = [&](const Completion& completion, Instant time) {
    completions[count] = completion;
    if (times != nullptr) times[count] = time;
    ++count;
  };
  for (; count < wanted && fetched_at_ < fetched_end_; ++fetched_at_)
    add(fetched_[fetched_at_], fetched_times_[fetched_at_]);
  for (; count < wanted && !others_.empty(); others_.pop_front())
    add(others_.front().first, others_.front().second);
  set_any();
  return count;
}

size_t KeptCompletions::fetch(const CompletionQueue& queue) noexcept {
  const std::lock_guard guard(lock_);
  if (any_) return 0;
  fetched_at_ = 0;
  fetched_end_ = queue.poll(fetched_, fetched_times_);
  set_any();
  return fetched_end_;
}

void KeptCompletions::drop(uint32_t qp_num, const CompletionQueue& queue) {
  const std::lock_guard guard(lock_);
  size_t left = fetched_at_;
  for (size_t i = fetched_at_; i < fetched_end_; ++i) {
    if (fetched_[i].qp.value == qp_num) continue;
    fetched_[left] = fetched_[i];
    fetched_times_[left++] = fetched_times_[i];
  }
  fetched_end_ = left;
  std::erase_if(others_, [&](const auto& kept) { return kept.first.qp.value == qp_num; });
  // At most those that the queue holds now: others may be added meanwhile.
  std::array<Completion, kBatch> completions;
  std::array<Instant, kBatch> times;
  for (uint32_t held = queue.capacity(); held != 0;) {
    const size_t wanted = std::min<size_t>(kBatch, held);
    const size_t count = queue.poll({completions.data(), wanted}, {times.data(), wanted});
    for (size_t i = 0; i < count; ++i)
      if (completions[i].qp.value != qp_num) others_.emplace_back(completions[i], times[i]);
    if (count < wanted) break;
    held -= static_cast<uint32_t>(count);
  }
  set_any();
}

}  // namespace weft::drop_in
