// SPDX-License-Identifier: BSD-3-Clause
// Credits of an endpoint, and the messages without payload that carry them. See endpoint.hpp.
#include <algorithm>

#include "lib/message/endpoint.hpp"

namespace weft::message {

// The credits that the next message to the peer returns: from now on the peer may use them.
uint16_t Endpoint::take_credits(PeerState& peer) noexcept {
  const auto taken = static_cast<uint16_t>(std::min<uint32_t>(peer.to_return, UINT16_MAX));
  peer.to_return -= taken;
  peer.granted += taken;
  return taken;
}

// The message was not sent after all.
void Endpoint::untake_credits(PeerState& peer, uint16_t taken) noexcept {
  peer.to_return += taken;
  peer.granted -= taken;
}

// The first message of a peer: it gets the credits beyond the first, as far as the total allows.
void Endpoint::know(PeerState& peer) noexcept {
  if (peer.is_known) return;
  peer.is_known = true;
  const uint32_t extra = limits_.credits > kFirstCredits ? limits_.credits - kFirstCredits : 0;
  if (extra_granted_ + extra > limits_.total_credits) return;
  extra_granted_ += extra;
  peer.extra = extra;
  peer.to_return += extra;
}

// A receive has taken an eager message of the peer. Credits go with the next message to it, or by
// themselves when it may be about to run out.
void Endpoint::return_credit(Peer from, PeerState& peer) {
  ++peer.to_return;
  if (peer.to_return >= (kFirstCredits + peer.extra) / 2)
    post_control(from, {.kind = Kind::credit});
}

// Sends a message without payload, now or with resume(). False: no memory.
bool Endpoint::post_control(Peer to, const Header& wanted) {
  ControlOperation* const control = controls_.take();
  if (control == nullptr) return ++counters_.out_of_memory, false;
  Header header = wanted;
  header.credits = take_credits(state_of(to));
  control->peer = to;
  write_header(header, control->header.data());
  if (unsent_controls_.empty() &&
      io_.send(to, control->header, {}, static_cast<Operation*>(control)))
    return true;
  unsent_controls_.push_back(control);
  return true;
}

}  // namespace weft::message
