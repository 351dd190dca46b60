// SPDX-License-Identifier: BSD-3-Clause
// Pieces that are put to where their receiver invited them.
#include <cstddef>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/collective/run/link.hpp"

namespace weft::collective {

bool Link::send_invitations(std::span<const Invitation> invitations) {
  WEFT_DCHECK(invitations.size() <= kInvitations);
  ControlMessage message{.kind = ControlKind::invite,
                         .count = static_cast<uint16_t>(invitations.size())};
  std::memcpy(message.text, invitations.data(), invitations.size_bytes());
  return send_control(message);
}

// Those for pieces that have gone through their slot, and of calls that are over, are of no more
// use.
const Invitation* Link::invitation(uint64_t sequence, size_t index) {
  const auto place = [](const Invitation& to) { return std::pair(to.sequence, size_t{to.index}); };
  const std::pair wanted(sequence, index);
  while (!invitations_.empty() && place(invitations_.front()) < wanted) invitations_.pop_front();
  if (invitations_.empty() || place(invitations_.front()) != wanted) return nullptr;
  return &invitations_.front();
}

bool Link::send_invited(const Call& call, uint32_t pieces, std::span<const std::byte> payload,
                        LKey key, uint32_t step, const Invitation& to) {
  WEFT_DCHECK(can_send() && payload.size() == to.bytes);
  const uint32_t slot = slot_of(posted_);
  const PieceHeader header{call, consumed_, to.bytes, pieces, 1};
  std::memcpy(sending_.get() + slot * copy_stride(), &header, sizeof header);
  const Sge sge{const_cast<std::byte*>(payload.data()), to.bytes, key};
  const bool adds = to.place == Invitation::Place::add;
  const PostStatus posted = qp_.post_send({.id = id_of(IdKind::invited, slot),
                                           .opcode = adds ? Opcode::write_add : Opcode::write,
                                           .flags = SendFlags::signaled,
                                           .sges = {&sge, 1},
                                           .remote_address = to.address,
                                           .rkey = {to.rkey},
                                           .element = to.element});
  if (!posted) return false;
  steps_[slot] = step;
  ++lent_;
  ++posted_;
  return true;
}

// The payload is in place: its header follows.
bool Link::finish_invited(uint32_t slot) {
  std::byte* const copy = sending_.get() + slot * copy_stride();
  std::memcpy(copy + offsetof(PieceHeader, consumed), &consumed_, sizeof consumed_);
  told_ = consumed_;
  const Sge sge = sending_region_.sge(slot * copy_stride(), sizeof(PieceHeader));
  if (post_piece({.slot = slot,
                  .immediate = immediate_of(piece_of(slot)),
                  .flags = SendFlags::signaled | SendFlags::inline_data},
                 {&sge, 1}))
    return true;
  abort_link();
  return false;
}

}  // namespace weft::collective
