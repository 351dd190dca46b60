// SPDX-License-Identifier: BSD-3-Clause
// See scoreboard.hpp.
#include "lib/roce/recovery/scoreboard.hpp"

#include <algorithm>

namespace weft::roce {

void Scoreboard::change(uint64_t psn, Mark::Is to) noexcept {
  Mark& mark = at(psn);
  WEFT_DCHECK(mark.is != to);
  if (mark.is == Mark::nothing) ++marked_;
  if (to == Mark::nothing) --marked_;
  if (mark.is == Mark::missing) --missing_;
  if (to == Mark::missing) {
    missing_from_ = missing_ == 0 ? psn : std::min(missing_from_, psn);
    ++missing_;
  }
  mark.is = to;
  WEFT_DCHECK(missing_ <= marked_ && marked_ <= window());
}

bool Scoreboard::hold(uint64_t psn) noexcept {
  if (at(psn).is == Mark::held) return false;
  change(psn, Mark::held);
  return true;
}

bool Scoreboard::miss(uint64_t psn, uint64_t lost_end) noexcept {
  const Mark& mark = at(psn);
  if (mark.is == Mark::held || mark.is == Mark::missing) return false;
  const auto later = static_cast<int32_t>(static_cast<uint32_t>(lost_end) - mark.next);
  if (mark.is == Mark::repeated && later <= 0) return false;
  change(psn, Mark::missing);
  return true;
}

uint64_t Scoreboard::first_missing(uint64_t una) noexcept {
  WEFT_DCHECK(has_missing());
  missing_from_ = std::max(missing_from_, una);
  while (at(missing_from_).is != Mark::missing) ++missing_from_;
  return missing_from_;
}

void Scoreboard::on_repeated(uint64_t from, uint64_t end, uint64_t next) noexcept {
  WEFT_DCHECK(from < end && end - from <= window());
  for (uint64_t psn = from; psn != end; ++psn) {
    if (at(psn).is == Mark::held) continue;
    if (at(psn).is != Mark::repeated) change(psn, Mark::repeated);
    at(psn).next = static_cast<uint32_t>(next);
  }
}

uint32_t Scoreboard::take(uint64_t from, uint64_t end) noexcept {
  uint32_t held = 0;
  end = std::min(end, from + window());
  for (uint64_t psn = from; psn < end && marked_ != 0; ++psn) {
    held += at(psn).is == Mark::held;
    if (at(psn).is != Mark::nothing) change(psn, Mark::nothing);
  }
  return held;
}

}  // namespace weft::roce
