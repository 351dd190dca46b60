// SPDX-License-Identifier: BSD-3-Clause
// Who fails every ICRC: an address translator on the path changes what the ICRC covers, and then
// all packets of a peer are dropped, though nothing else is wrong. A peer whose packets fail one
// after the other, with no good one between, is told of once. Bounded: a few are watched, and some
// that were told of are remembered; a forger of sources can make no more noise than that.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lib/base/check.hpp"
#include "weft/types.hpp"

namespace weft::transport {

class IcrcWatch {
 public:
  static constexpr uint32_t kWatched = 16;   // at a time
  static constexpr uint32_t kInARow = 32;    // failures that call for a word
  static constexpr uint32_t kMostTold = 64;  // peers of one device; then it is silent

  // Some peer failed and has not sent anything good since: good packets matter.
  bool watching() const noexcept { return used_ != 0; }
  void on_good(const Gid& source) noexcept {
    for (uint32_t i = 0; i < used_; ++i)
      if (watched_[i].source == source) return forget(i);
  }
  // True: that was one too many, and next_told() has its address.
  bool on_bad(const Gid& source) noexcept {
    for (uint32_t i = 0; i < told_; ++i)
      if (told_of_[i] == source) return false;
    uint32_t i = 0;
    while (i < used_ && watched_[i].source != source) ++i;
    if (i == used_) watched_[i = place()] = {source, 0};
    if (++watched_[i].failures < kInARow) return false;
    forget(i);
    if (told_ == kMostTold) return false;
    told_of_[told_++] = source;
    WEFT_DCHECK(said_ < told_ && told_ <= kMostTold);
    return true;
  }
  // The addresses that are still to be told of, one at a time.
  std::optional<Gid> next_report() noexcept {
    if (said_ == told_) return {};
    return told_of_[said_++];
  }

 private:
  struct Watched {
    Gid source;
    uint32_t failures = 0;
  };
  void forget(uint32_t i) noexcept {
    WEFT_DCHECK(i < used_ && used_ <= kWatched);
    watched_[i] = watched_[--used_];
  }
  uint32_t place() noexcept {
    if (used_ < kWatched) return used_++;
    return next_ = (next_ + 1) % kWatched;
  }

  std::array<Watched, kWatched> watched_{};
  std::array<Gid, kMostTold> told_of_{};
  uint32_t used_ = 0, next_ = 0, told_ = 0, said_ = 0;
};

}  // namespace weft::transport
