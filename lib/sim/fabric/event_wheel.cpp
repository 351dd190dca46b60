// SPDX-License-Identifier: BSD-3-Clause
// Finding the next slot takes two bit scans. A slot's events are copied out when its nanosecond
// begins, so that they lie in one row, and sorted by picosecond if they are not in order; where
// times are whole nanoseconds they always are.
#include "lib/sim/fabric/event_wheel.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim::fabric {
namespace {

bool earlier(const Packet& a, const Packet& b) { return a.at < b.at; }

}  // namespace

void EventWheel::insert_current(const Packet& packet) {
  WEFT_DCHECK(packet.at >= now_);
  const auto begin = current_.begin() + static_cast<ptrdiff_t>(at_);
  if (begin == current_.end() || current_.back().at <= packet.at) {
    current_.push_back(packet);
    return;
  }
  const Packet copy = packet;
  current_.insert(std::upper_bound(begin, current_.end(), copy, earlier), copy);
}

void EventWheel::insert_far(const Packet& packet) {
  far_.push_back({packet, pushed_});
  std::push_heap(far_.begin(), far_.end());
}

// The tick of the first slot that is not empty, after tick_; INT64_MAX if there is none.
int64_t EventWheel::next_slot_tick() const noexcept {
  if (summary_ == 0) return INT64_MAX;
  const auto begin = static_cast<uint64_t>(tick_ + 1) & (kSlots - 1);
  const uint64_t word = begin / 64;
  uint64_t slot = 0;
  if (const uint64_t rest = words_[word] >> (begin % 64); rest != 0) {
    slot = begin + static_cast<uint64_t>(std::countr_zero(rest));
  } else {
    // The words behind this one, then around the wheel, this one's lower bits last.
    const uint64_t turned = std::rotr(summary_, static_cast<int>(word + 1) & 63);
    const uint64_t found = (word + 1 + static_cast<uint64_t>(std::countr_zero(turned))) & 63;
    slot = found * 64 + static_cast<uint64_t>(std::countr_zero(words_[found]));
  }
  return tick_ + 1 + static_cast<int64_t>((slot - begin) & (kSlots - 1));
}

bool EventWheel::advance() {
  current_.clear();
  at_ = 0;
  const int64_t near = next_slot_tick();
  const int64_t far = far_.empty() ? INT64_MAX : far_.front().packet.at / kTick;
  if (near == INT64_MAX && far == INT64_MAX) return false;
  tick_ = std::min(near, far);
  while (!far_.empty() && far_.front().packet.at / kTick == tick_) {
    current_.push_back(far_.front().packet);
    std::pop_heap(far_.begin(), far_.end());
    far_.pop_back();
  }
  if (near == tick_) {
    const size_t index = static_cast<size_t>(tick_) & (kSlots - 1);
    Fifo& slot = slots_[index];
    while (!slot.empty()) current_.push_back(slot.pop(pool_));
    words_[index / 64] &= ~(uint64_t{1} << (index % 64));
    if (words_[index / 64] == 0) summary_ &= ~(uint64_t{1} << (index / 64));
  }
  if (!std::is_sorted(current_.begin(), current_.end(), earlier))
    std::stable_sort(current_.begin(), current_.end(), earlier);
  return true;
}

}  // namespace weft::sim::fabric
