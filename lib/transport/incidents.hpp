// SPDX-License-Identifier: BSD-3-Clause
// The most recent incidents of a machine, for inspection (weft_stat): asynchronous events, and
// requests that completed with an error. A ring; the engine has no clock, so the driver adds times.
#pragma once

#include <array>
#include <cstdint>

#include "lib/base/check.hpp"
#include "lib/transport/lost_peers.hpp"
#include "weft/device.hpp"
#include "weft/wr.hpp"

namespace weft::transport {

struct Incident {
  AsyncEvent event;                 // only if `status` is success
  Status status = Status::success;  // of the request that failed
  QpNum qp;
  Gid peer;              // of a request that failed; zero: not known
  QpNum peer_qp;         // 0: not known
  uint32_t retries = 0;  // that were made before it failed
  Duration waited;       // for each, or without a retry in total; zero: it did not fail by time
  PeerSign sign = PeerSign::none;  // the peer is gone, says this
  Instant at = Instant::never();
};

class Incidents {
 public:
  static constexpr uint32_t kMost = 32;

  void add(const Incident& incident) noexcept { ring_[total_++ % kMost] = incident; }
  // Sets the time of incidents added since the last call, and passes each to `visit`.
  template <class Visit>
  void stamp(Instant now, Visit visit) noexcept {
    if (total_ - stamped_ > kMost) stamped_ = total_ - kMost;
    WEFT_DCHECK(total_ - stamped_ <= kMost);
    for (; stamped_ != total_; ++stamped_) {
      Incident& incident = ring_[stamped_ % kMost];
      incident.at = now;
      visit(incident);
    }
  }
  // Oldest first.
  template <class Visit>
  void visit(Visit visit) const {
    for (uint32_t i = total_ > kMost ? total_ - kMost : 0; i != total_; ++i)
      visit(ring_[i % kMost]);
  }

 private:
  std::array<Incident, kMost> ring_;
  uint32_t total_ = 0, stamped_ = 0;
};

}  // namespace weft::transport
