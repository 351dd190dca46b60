// SPDX-License-Identifier: BSD-3-Clause
// Frames to addresses whose neighbour is not known yet wait aside, so that nobody else's frames
// wait for them: about as many as a kernel would keep. What finds no room is lost, as on a wire.
#pragma once

#include <vector>

#include "providers/port/ethernet/frame_copy.hpp"
#include "providers/port/ethernet/neighbours.hpp"

namespace weft::port::ethernet {

class Unresolved {
 public:
  bool empty() const noexcept { return waiting_.empty(); }
  uint64_t lost() const noexcept { return lost_; }  // no room, or nobody answers for the address

  // Keeps a copy of a frame and asks who has its address.
  void keep(const transport::TxFrame& frame, Neighbours& neighbours, Instant now) noexcept;

  // Calls send(TxFrame, MacAddress) for frames whose neighbour is known by now, in their order;
  // asks again for the others, or gives them up. False: send() did, it has no room.
  template <class Send>
  bool settle(Neighbours& neighbours, Instant now, const Send& send) noexcept {
    for (size_t i = waiting_.size(); i-- > 0;) {
      Destination& to = waiting_[i];
      const wire::MacAddress* const mac = neighbours.find(to.address);
      if (mac != nullptr) {
        for (; to.sent < to.frames.size(); ++to.sent)
          if (!send(to.frames[to.sent].to_send(), *mac)) return false;
        forget(i);
      } else if (neighbours.ask(to.address, now) == Neighbours::Asked::absent) {
        lost_ += to.frames.size();
        forget(i);
      }
    }
    return true;
  }

 private:
  static constexpr size_t kMostDestinations = 16, kMostFrames = 64;  // frames of one destination

  struct Destination {
    Gid address;
    std::vector<FrameCopy> frames;
    size_t sent = 0;
  };
  Destination* find(const Gid& address) noexcept;
  void forget(size_t i) noexcept;

  std::vector<Destination> waiting_;
  uint64_t lost_ = 0;
};

}  // namespace weft::port::ethernet
