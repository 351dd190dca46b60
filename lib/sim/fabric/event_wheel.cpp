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

// Stable. The few events of one nanosecond are nearly in order, and insertion needs no memory.
void sort(std::vector<Packet>& events) {
  if (events.size() > 48) {
    if (!std::is_sorted(events.begin(), events.end(), earlier))
      std::stable_sort(events.begin(), events.end(), earlier);
    return;
  }
  for (size_t i = 1; i < events.size(); ++i) {
    if (!earlier(events[i], events[i - 1])) continue;
    const Packet packet = events[i];
    size_t place = i;
    for (; place > 0 && earlier(packet, events[place - 1]); --place)
      events[place] = events[place - 1];
    events[place] = packet;
  }
}

}  // namespace

Packet& EventWheel::place_current(int64_t at) {
  WEFT_DCHECK(at >= now_);
  size_t place = current_.size();
  while (place > at_ && current_[place - 1].at > at) --place;
  return *current_.emplace(current_.begin() + static_cast<ptrdiff_t>(place));
}

// Up the heap to its place, as std::push_heap does.
Packet& EventWheel::place_far(int64_t at) {
  Far far{.packet = {.at = at}, .sequence = pushed_};
  size_t place = far_.size();
  far_.push_back(far);
  while (place > 0 && far_[(place - 1) / 2] < far) {
    far_[place] = far_[(place - 1) / 2];
    place = (place - 1) / 2;
  }
  far_[place] = far;
  return far_[place].packet;
}

// The tick of the first slot that is not empty, after `tick`; INT64_MAX if there is none. (Around
// the wheel: if the only one is that of `tick` itself, it is one revolution ahead.)
int64_t EventWheel::next_slot_tick(int64_t tick) const noexcept {
  if (summary_ == 0) return INT64_MAX;
  const auto begin = static_cast<uint64_t>(tick + 1) & (kSlots - 1);
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
  return tick + 1 + static_cast<int64_t>((slot - begin) & (kSlots - 1));
}

bool EventWheel::advance() {
  current_.clear();
  at_ = 0;
  const int64_t near = next_slot_tick(tick_);
  const int64_t far = far_.empty() ? INT64_MAX : far_.front().packet.at / kTick;
  if (near == INT64_MAX && far == INT64_MAX) return false;
  WEFT_DCHECK(std::min(near, far) > tick_);
  tick_ = std::min(near, far);
  while (!far_.empty() && far_.front().packet.at / kTick == tick_) {
    current_.push_back(far_.front().packet);
    std::pop_heap(far_.begin(), far_.end());
    far_.pop_back();
  }
  if (near == tick_) {
    const size_t index = static_cast<size_t>(tick_) & (kSlots - 1);
    slots_[index].drain(current_, pool_);
    words_[index / 64] &= ~(uint64_t{1} << (index % 64));
    if (words_[index / 64] == 0) summary_ &= ~(uint64_t{1} << (index / 64));
  }
  sort(current_);
  WEFT_DCHECK(!current_.empty() && current_.front().at >= now_);
  return true;
}

}  // namespace weft::sim::fabric
