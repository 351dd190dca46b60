// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: pieces that are written to memory which their receiver has advertised.
#include <cstddef>
#include <cstring>

#include "lib/collective/run/link.hpp"
#include "lib/collective/run/link_id.hpp"

namespace weft::collective {

bool Link::send_advertisements(std::span<const Advertisement> advertisements) {
  WEFT_DCHECK(!advertisements.empty() && advertisements.size() <= kAdvertisements);
  ControlMessage message{.kind = ControlKind::advertise,
                         .count = static_cast<uint16_t>(advertisements.size())};
  std::memcpy(message.text, advertisements.data(), advertisements.size_bytes());
  return send_control(message);
}

bool Link::send_rendezvous(const Call& call, uint32_t pieces, std::span<const std::byte> payload,
                           LKey key, uint32_t step, const Advertisement& to) {
  WEFT_DCHECK(supports_rendezvous() && can_send() && payload.size() == to.bytes);
  WEFT_DCHECK(step != kNoStep && to.place != Advertisement::Place::slot);
  const uint32_t slot = sends_.next_slot();
  const PieceHeader header{call, receives_.consumed(), to.bytes, pieces, 1};
  std::memcpy(buffers_.staging(slot), &header, sizeof header);
  const Sge sge{const_cast<std::byte*>(payload.data()), to.bytes, key};
  const bool adds = to.place == Advertisement::Place::add;
  const PostStatus posted = qp_.post_send({.id = make_id(index_, IdKind::rendezvous, slot),
                                           .opcode = adds ? Opcode::write_add : Opcode::write,
                                           .flags = SendFlags::signaled,
                                           .sges = {&sge, 1},
                                           .remote_address = to.address,
                                           .rkey = {to.rkey},
                                           .element = to.element});
  if (!posted) return false;
  sends_.on_posted(step);
  return true;
}

// The payload is in place: its header goes into the slot.
bool Link::send_rendezvous_header(uint32_t slot) {
  WEFT_DCHECK(sends_.piece_in(slot) < sends_.posted() && sends_.step_in(slot) == kNoStep);
  const uint64_t consumed = receives_.consumed();
  std::memcpy(buffers_.staging(slot) + offsetof(PieceHeader, consumed), &consumed, sizeof consumed);
  receives_.on_credit_sent();
  const Sge sge = buffers_.staging_sge(slot, 0, sizeof(PieceHeader));
  if (post_piece(slot, sends_.immediate_of(sends_.piece_in(slot)), 0,
                 SendFlags::signaled | SendFlags::inline_data, {&sge, 1}))
    return true;
  abort_link();
  return false;
}

}  // namespace weft::collective
