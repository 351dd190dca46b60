// SPDX-License-Identifier: BSD-3-Clause
// Queue of frames whose next hop is not resolved yet, so that they do not block frames to other
// destinations; about as long as a kernel's. A frame that finds it full is dropped.
#pragma once

#include <vector>

#include "providers/port/ethernet/frame_copy.hpp"
#include "providers/port/ethernet/neighbours.hpp"

namespace weft::port::ethernet {

class Unresolved {
 public:
  bool empty() const noexcept { return waiting_.empty(); }
  uint64_t dropped() const noexcept { return dropped_; }  // queue full, or unreachable

  // Queues a copy of the frame and requests its next hop.
  void enqueue(const transport::TxFrame& frame, Neighbours& neighbours, Instant now) noexcept;

  // Calls send(TxFrame, MacAddress) for frames whose next hop is resolved, in FIFO order; repeats
  // the request for the others, or drops them. False: send() returned false, for lack of room.
  template <class Send>
  bool send_resolved(Neighbours& neighbours, Instant now, const Send& send) noexcept {
    for (size_t i = waiting_.size(); i-- > 0;) {
      Destination& to = waiting_[i];
      const wire::MacAddress* const mac = neighbours.find(to.address);
      if (mac != nullptr) {
        for (; to.sent < to.frames.size(); ++to.sent)
          if (!send(to.frames[to.sent].to_send(), *mac)) return false;
        forget(i);
      } else if (neighbours.resolve(to.address, now) == Neighbours::Resolution::unreachable) {
        dropped_ += to.frames.size();
        forget(i);
      }
    }
    return true;
  }

 private:
  static constexpr size_t kMaxDestinations = 16, kMaxFrames = 64;  // frames of one destination

  struct Destination {
    Gid address;
    std::vector<FrameCopy> frames;
    size_t sent = 0;
  };
  Destination* find(const Gid& address) noexcept;
  void forget(size_t i) noexcept;

  std::vector<Destination> waiting_;
  uint64_t dropped_ = 0;
};

}  // namespace weft::port::ethernet
