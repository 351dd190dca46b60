// SPDX-License-Identifier: BSD-3-Clause
// Credits of an endpoint, and the messages without payload that carry them. See endpoint.hpp.
#include <algorithm>
#include <utility>

#include "lib/message/endpoint.hpp"

namespace weft::message {

uint16_t PeerState::take_credits() noexcept {
  const auto taken = static_cast<uint16_t>(std::min<uint32_t>(to_return, UINT16_MAX));
  to_return -= taken;
  granted += taken;
  WEFT_DCHECK(granted <= kFirstCredits + extra);
  return taken;
}

void PeerState::untake_credits(uint16_t taken) noexcept {
  WEFT_DCHECK(granted >= taken);
  to_return += taken;
  granted -= taken;
}

// A message has come. With the first, the peer gets the credits beyond the first, as far as the
// total allows. Answers that did not arrive are sent again: the peer waits for them, or knows them
// and drops them.
void Endpoint::note_message(PeerState& peer) {
  peer.last_message = now_;
  if (!std::exchange(peer.is_known, true)) {
    WEFT_DCHECK(peer.extra == 0 && extra_granted_ <= limits_.total_credits);
    const uint32_t extra = limits_.credits > kFirstCredits ? limits_.credits - kFirstCredits : 0;
    if (extra_granted_ + extra <= limits_.total_credits) {
      extra_granted_ += extra;
      peer.extra = extra;
      peer.to_return += extra;
    }
  }
  if (peer.lost.empty()) return;
  while (ControlOperation* control = peer.lost.front()) {
    List<ControlOperation, 0>::remove(control);
    unsent_controls_.push_back(control);
  }
  peer.lost_count = 0;
  send_controls();
}

// A receive has taken an eager message of the peer. Credits go with the next message to it, or by
// themselves when it may be about to run out.
void Endpoint::return_credit(Peer from, PeerState& peer) {
  ++peer.to_return;
  WEFT_DCHECK(peer.granted + peer.to_return <= kFirstCredits + peer.extra);
  if (peer.to_return >= (kFirstCredits + peer.extra) / 2)
    post_control(from, {.kind = Kind::credit});
}

// Sends a message without payload, now or with resume(). False: no memory.
bool Endpoint::post_control(Peer to, const Header& wanted) {
  ControlOperation* const control = controls_.take();
  if (control == nullptr) return ++counters_.out_of_memory, false;
  PeerState& peer = state_of(to);
  ++peer.operations;
  Header header = wanted;
  header.credits = peer.take_credits();
  control->peer = to;
  control->kind = header.kind;
  write_header(header, control->header.data());
  unsent_controls_.push_back(control);
  send_controls();
  return true;
}

// Sends those that wait, in order. False: there is no room.
bool Endpoint::send_controls() {
  while (ControlOperation* control = unsent_controls_.front()) {
    if (!io_.send(control->peer, control->header, {}, static_cast<Operation*>(control)))
      return false;
    List<ControlOperation, 0>::remove(control);
  }
  return true;
}

// The credits of a message that failed are lost: it may have arrived. An answer is kept until
// another message comes from the peer.
void Endpoint::on_control_sent(ControlOperation& control, Code code) {
  WEFT_DCHECK(!control.is_linked());
  PeerState& peer = state_of(control.peer);
  if (control.kind == Kind::probe) peer.is_probed = false;
  if (code == Code::ok || control.kind != Kind::finished || peer.lost_count >= kMaxAnnounced)
    return give(controls_, control);
  set_credits(control.header.data(), 0);
  peer.lost.push_back(&control);
  ++peer.lost_count;
}

}  // namespace weft::message
