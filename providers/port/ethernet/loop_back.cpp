// SPDX-License-Identifier: BSD-3-Clause
// See loop_back.hpp.
#include "providers/port/ethernet/loop_back.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace weft::port::ethernet {

void LoopBack::add(const transport::TxFrame& frame) noexcept {
  if (waiting_.size() == kMost) return;
  std::optional<FrameCopy> copy = FrameCopy::of(frame);
  if (!copy) return;
  try {
    waiting_.reserve(kMost);
    lent_.reserve(kMost);
  } catch (const std::bad_alloc&) {
    return;
  }
  waiting_.push_back(*std::move(copy));
}

size_t LoopBack::receive(std::span<transport::Frame> frames) noexcept {
  if (waiting_.empty()) return 0;
  const size_t count = std::min((frames.size() + 1) / 2, waiting_.size());
  const auto end = waiting_.begin() + static_cast<ptrdiff_t>(count);
  lent_.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  std::transform(lent_.begin(), lent_.end(), frames.begin(),
                 [](const FrameCopy& copy) { return copy.as_received(); });
  return count;
}

}  // namespace weft::port::ethernet
