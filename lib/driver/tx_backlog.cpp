// SPDX-License-Identifier: BSD-3-Clause
// See tx_backlog.hpp.
#include "lib/driver/tx_backlog.hpp"

#include <algorithm>

namespace weft::driver {

template <class Matches>
void TxBacklog::drop_if(Matches matches) noexcept {
  WEFT_DCHECK(begin_ <= end_ && end_ <= burst_);
  transport::TxFrame* const first = frames_.get() + begin_;
  transport::TxFrame* const last = frames_.get() + end_;
  end_ = static_cast<size_t>(std::remove_if(first, last, matches) - frames_.get());
}

void TxBacklog::drop_memory(const void* base, size_t size) noexcept {
  const std::byte* const begin = static_cast<const std::byte*>(base);
  drop_if([&](const transport::TxFrame& frame) {
    WEFT_DCHECK(frame.span_count <= transport::kMaxSpans);
    for (uint8_t i = 0; i < frame.span_count; ++i) {
      const std::byte* const at = frame.spans[i].data;
      if (at < begin + size && begin < at + frame.spans[i].length) return true;
    }
    return false;
  });
}

void TxBacklog::drop_path(const transport::Path& path) noexcept {
  drop_if([&path](const transport::TxFrame& frame) { return frame.path == &path; });
}

}  // namespace weft::driver
