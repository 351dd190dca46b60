// SPDX-License-Identifier: BSD-3-Clause
// See loop_back.hpp.
#include "providers/port/ethernet/loop_back.hpp"

#include <algorithm>
#include <utility>

namespace weft::port::ethernet {

void LoopBack::add(const engine::TxFrame& frame) noexcept {
  if (waiting_.size() == kMost) return;
  Copy one{*frame.path, {}, frame.ip_id, frame.ecn};
  const auto append = [&](const std::byte* data, size_t size) {
    one.bytes.insert(one.bytes.end(), data, data + size);
  };
  append(frame.head, frame.head_length);
  for (uint32_t i = 0; i < frame.span_count; ++i)
    append(frame.spans[i].data, frame.spans[i].length);
  append(frame.tail, frame.tail_length);
  waiting_.push_back(std::move(one));
}

size_t LoopBack::receive(std::span<engine::Frame> frames) noexcept {
  lent_.swap(waiting_);
  const size_t count = std::min(frames.size(), lent_.size());
  for (size_t i = 0; i < count; ++i) {
    const Copy& one = lent_[i];
    frames[i] = {};
    frames[i].path = &one.path;
    frames[i].bytes = one.bytes.data();
    frames[i].length = static_cast<uint32_t>(one.bytes.size());
    frames[i].ip_id = one.ip_id;
    frames[i].ecn = one.ecn;
  }
  return count;
}

}  // namespace weft::port::ethernet
