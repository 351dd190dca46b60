// SPDX-License-Identifier: BSD-3-Clause
// Finds peers whose packets all fail the ICRC: address translation on the path changes fields that
// the ICRC covers. A peer with kFailuresInARow failures and no good packet between is reported
// once. Memory and reports are bounded, so that forged source addresses cause at most kMaxReported
// reports.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lib/base/check.hpp"
#include "weft/types.hpp"

namespace weft::transport {

class IcrcWatch {
 public:
  static constexpr uint32_t kWatched = 16;         // peers at a time
  static constexpr uint32_t kFailuresInARow = 32;  // failures before a report
  static constexpr uint32_t kMaxReported = 64;     // reports of one device

  // Whether on_good() needs to be called: a peer had failures and no good packet since.
  bool watching() const noexcept { return used_ != 0; }
  void on_good(const Gid& source) noexcept {
    for (uint32_t i = 0; i < used_; ++i)
      if (watched_[i].source == source) return forget(i);
  }
  // True: the peer has reached kFailuresInARow, and next_report() will return its address.
  bool on_bad(const Gid& source) noexcept {
    for (uint32_t i = 0; i < reported_count_; ++i)
      if (reported_[i] == source) return false;
    uint32_t i = 0;
    while (i < used_ && watched_[i].source != source) ++i;
    if (i == used_) watched_[i = place()] = {source, 0};
    if (++watched_[i].failures < kFailuresInARow) return false;
    forget(i);
    if (reported_count_ == kMaxReported) return false;
    reported_[reported_count_++] = source;
    WEFT_DCHECK(taken_count_ < reported_count_ && reported_count_ <= kMaxReported);
    return true;
  }
  // The next peer to report, each once.
  std::optional<Gid> next_report() noexcept {
    if (taken_count_ == reported_count_) return {};
    return reported_[taken_count_++];
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
  std::array<Gid, kMaxReported> reported_{};
  uint32_t used_ = 0, next_ = 0, reported_count_ = 0, taken_count_ = 0;
};

}  // namespace weft::transport
