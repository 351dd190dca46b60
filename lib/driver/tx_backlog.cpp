// SPDX-License-Identifier: BSD-3-Clause
// See tx_backlog.hpp.
#include "lib/driver/tx_backlog.hpp"

#include <algorithm>
#include <bit>

namespace weft::driver {

template <class Matches>
void TxBacklog::drop_if(Matches matches) noexcept {
  WEFT_DCHECK(begin_ <= end_ && end_ <= burst_);
  transport::TxFrame* const first = frames_.get() + begin_;
  transport::TxFrame* const last = frames_.get() + end_;
  end_ = static_cast<size_t>(std::remove_if(first, last, matches) - frames_.get());
}

void TxBacklog::drop_memory(const void* base, size_t size) noexcept {
  // As integers: a region may be the whole address space.
  const auto begin = std::bit_cast<uintptr_t>(base);
  drop_if([&](const transport::TxFrame& frame) {
    WEFT_DCHECK(frame.span_count <= transport::kMaxSpans);
    for (uint8_t i = 0; i < frame.span_count; ++i) {
      const auto at = std::bit_cast<uintptr_t>(frame.spans[i].data);
      const bool overlaps = at < begin ? begin - at < frame.spans[i].length : at - begin < size;
      if (overlaps) return true;
    }
    return false;
  });
}

void TxBacklog::drop_path(const transport::Path& path) noexcept {
  drop_if([&path](const transport::TxFrame& frame) { return frame.path == &path; });
}

}  // namespace weft::driver
