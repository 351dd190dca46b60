// SPDX-License-Identifier: BSD-3-Clause
// Control messages and buffer advertisements that have arrived and are not handled yet.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "lib/collective/run/link_messages.hpp"

namespace weft::collective {

class ControlInbox {
 public:
  // Keeps advertisements for find_advertisement(), other messages for next().
  void add(const ControlMessage& message) {
    if (message.kind != ControlKind::advertise) return messages_.push_back(message);
    Advertisement advertisements[kAdvertisements];
    std::memcpy(advertisements, message.text, sizeof advertisements);
    const size_t count = std::min<size_t>(message.count, kAdvertisements);
    advertisements_.insert(advertisements_.end(), advertisements, advertisements + count);
  }

  // The oldest message if the pieces sent before it have arrived: SRD keeps no order. An abort does
  // not wait for pieces.
  std::optional<ControlMessage> next(uint64_t arrived) {
    if (messages_.empty()) return std::nullopt;
    const bool abort = messages_.back().kind == ControlKind::abort;
    if (messages_.front().sent > arrived && !abort) return std::nullopt;
    const ControlMessage message = abort ? messages_.back() : messages_.front();
    abort ? messages_.pop_back() : messages_.pop_front();
    return message;
  }

  // Of piece `index` of a call, if it has arrived. Drops those before it: their pieces went through
  // slots, or their calls have ended.
  const Advertisement* find_advertisement(uint64_t sequence, size_t index) {
    const auto place = [](const Advertisement& a) {
      return std::pair(a.sequence, size_t{a.index});
    };
    const std::pair wanted(sequence, index);
    while (!advertisements_.empty() && place(advertisements_.front()) < wanted)
      advertisements_.pop_front();
    if (advertisements_.empty() || place(advertisements_.front()) != wanted) return nullptr;
    return &advertisements_.front();
  }

 private:
  std::deque<ControlMessage> messages_;
  std::deque<Advertisement> advertisements_;
};

}  // namespace weft::collective
