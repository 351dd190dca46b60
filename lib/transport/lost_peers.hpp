// SPDX-License-Identifier: BSD-3-Clause
// Peers that are gone, as far as something says so: a port adds them, the driver hands them to the
// engine, which ends the requests to them. What says nothing is a silent peer, and a matter of the
// engine's time-outs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lib/base/check.hpp"
#include "weft/types.hpp"

namespace weft::transport {

// What says that a peer is gone. In Completion::vendor_error of the requests that end by it,
// shifted by kSignShift (docs/failure-model.md).
enum class PeerSign : uint8_t {
  none,
  process_ended,     // the kernel says so (pidfd)
  device_closed,     // its process lives, but nothing listens there any more
  port_unreachable,  // its host says that no process has its UDP port
};
inline constexpr uint32_t kSignShift = 4;
constexpr uint16_t detail_of(PeerSign sign) noexcept {
  return static_cast<uint16_t>(static_cast<uint16_t>(sign) << kSignShift);
}
constexpr PeerSign sign_of(uint16_t detail) noexcept {
  return static_cast<PeerSign>(detail >> kSignShift);
}
constexpr std::string_view text_of(PeerSign sign) noexcept {
  switch (sign) {
    case PeerSign::process_ended:
      return "the peer's process has ended";
    case PeerSign::device_closed:
      return "the peer has closed its device";
    case PeerSign::port_unreachable:
      return "no process of the peer's host has its UDP port (ICMP port unreachable)";
    case PeerSign::none:
      break;
  }
  return {};
}

// Queue pairs whose device is gone.
struct LostPeer {
  Gid address;
  uint8_t slot = 0;        // the top 8 bits of their numbers; 0: all of the address
  bool in_memory = false;  // of paths with Path::in_memory, or of the others
  PeerSign sign = PeerSign::none;

  bool covers(const Gid& to, QpNum number, bool by_memory) const noexcept {
    return address == to && in_memory == by_memory && (slot == 0 || slot == number.value >> 16);
  }
};

// Those that the engine has not been told of yet, in order.
class LostPeers {
 public:
  static constexpr uint32_t kMost = 64;

  bool empty() const noexcept { return first_ == end_; }
  // When it is full the peer is not noted: it counts as a silent one.
  void add(const LostPeer& peer) noexcept {
    WEFT_DCHECK(peer.sign != PeerSign::none);
    if (end_ - first_ != kMost) ring_[end_++ % kMost] = peer;
  }
  LostPeer take() noexcept {
    WEFT_DCHECK(!empty());
    return ring_[first_++ % kMost];
  }

 private:
  std::array<LostPeer, kMost> ring_;
  uint32_t first_ = 0, end_ = 0;
};

}  // namespace weft::transport
