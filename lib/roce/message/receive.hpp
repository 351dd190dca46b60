// SPDX-License-Identifier: BSD-3-Clause
// Packets of SEND and WRITE messages at the receiver, for RC and UC: legality, and payload into the
// memory that scatter/gather entries and RETHs name. The key is checked for every packet, so a
// region that is revoked in the middle of a message is not written any more. What an invalid packet
// leads to is up to the service: each check returns a Verdict. Sending is in send.hpp.
#pragma once

#include <algorithm>

#include "lib/memory/guarded_copy.hpp"
#include "lib/roce/message/outcome.hpp"
#include "lib/roce/state/engine_state.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce {

// One 32-bit value: three bytes that are stored one by one and loaded together would have to leave
// the store buffer first, behind the payload that was just placed.
class Verdict {
 public:
  enum class Kind : uint8_t {
    accept,
    nak,   // invalid: `syndrome` says why
    rnr,   // no receive is posted
    drop,  // the payload could not be pulled
  };
  constexpr Verdict(Kind kind = Kind::accept) : word_(static_cast<uint8_t>(kind)) {}
  // `status`: the receive in use completes with this.
  static constexpr Verdict nak(uint8_t syndrome, Status status = Status::success) {
    Verdict verdict(Kind::nak);
    verdict.word_ |= uint32_t{syndrome} << 8 | static_cast<uint32_t>(status) << 16;
    return verdict;
  }
  constexpr Kind kind() const { return static_cast<Kind>(word_ & 0xFF); }
  constexpr uint8_t syndrome() const { return static_cast<uint8_t>(word_ >> 8); }
  constexpr Status receive_status() const { return static_cast<Status>(word_ >> 16); }

 private:
  uint32_t word_;
};

// FIRST/MIDDLE/LAST/ONLY must follow each other, within one operation. //= roce:C-OPS-69
inline bool in_order(const QueuePair& qp, const wire::Packet& packet) noexcept {
  const wire::OpcodeInfo& info = *packet.info;
  if (info.starts_message()) return qp.res.message == Responder::Message::none;
  return qp.res.message == (info.operation == wire::Operation::send ? Responder::Message::send
                                                                    : Responder::Message::write);
}

// FIRST and MIDDLE carry the path MTU, LAST 1..MTU, ONLY 0..MTU. //= roce:C-OPS-70 roce:C-OPS-71
inline bool length_fits(const EngineState& engine, const QueuePair& qp,
                        const wire::Packet& packet) noexcept {
  if (!packet.info->ends_message()) return packet.payload_length == qp.mtu() && packet.pad == 0;
  if (packet.payload_length > qp.mtu()) return false;
  if (packet.info->place == wire::Place::last && packet.payload_length == 0) return false;
  //= roce:C-HDR-3 frames without an ICRC have no pad either
  return !packet.info->payload || !engine.checks_icrc() ||
         ((packet.payload_length + packet.pad) & 3) == 0;
}

enum class Placed : uint8_t { ok, too_long, local_error, access_error, not_pulled };

// Calls copy(where, bytes before it, its length) for each piece of memory of `length` bytes from
// `offset` on of a list of entries that has that many. Ends at the first result that is not ok.
template <class Copy>
Placed scatter(EngineState& engine, uint32_t domain, const Sge* sges, uint64_t offset,
               uint32_t length, Copy copy) noexcept {
  uint32_t done = 0;
  for (uint32_t i = 0; done != length; ++i) {
    if (offset >= sges[i].length) {
      offset -= sges[i].length;
      continue;
    }
    const uint32_t piece =
        static_cast<uint32_t>(std::min<uint64_t>(length - done, sges[i].length - offset));
    WEFT_DCHECK(piece != 0 && piece <= length - done);
    std::byte* where;
    if (engine.keys().check(sges[i].lkey.value, domain,
                            reinterpret_cast<uint64_t>(sges[i].address) + offset, piece,
                            Access::local_write, &where) != memory::Verdict::ok)
      return Placed::local_error;
    const Placed placed = copy(where, done, piece);
    if (placed != Placed::ok) return placed;
    done += piece;
    offset = 0;
  }
  return Placed::ok;
}

// Copies a part of a payload to `to`, whose key was checked. This is the one copy of receiving:
// from the port's buffer (or the sender's memory) to the final address.
//= roce:C-OPS-81 the copy ends with a release store of the last aligned word
inline Placed copy_payload(EngineState& engine, std::byte* to, const wire::Packet& packet,
                           const Frame& frame, uint32_t offset, uint32_t length) noexcept {
  WEFT_DCHECK(offset + length <= packet.payload_length);
  if (frame.remote != nullptr && frame.remote_length != 0) {
    engine.count(Count::rx_by_reference);
    return frame.remote->pull(to, frame.remote_address + offset, length) ? Placed::ok
                                                                         : Placed::not_pulled;
  }
  const std::byte* from = frame.more_length != 0 ? frame.more : packet.payload;
  return memory::copy_in(to, from + offset, length) ? Placed::ok : Placed::access_error;
}

// Copies the payload of a packet to `offset` of a list of entries that has room for it.
inline Placed scatter_payload(EngineState& engine, uint32_t domain, const Sge* sges,
                              uint64_t offset, const wire::Packet& packet,
                              const Frame& frame) noexcept {
  const auto copy = [&](std::byte* where, uint32_t done, uint32_t piece) {
    return copy_payload(engine, where, packet, frame, done, piece);
  };
  return scatter(engine, domain, sges, offset, packet.payload_length, copy);
}

// receive.cpp: executes a packet of a SEND or WRITE that is in order.
Verdict execute_message(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                        const Frame& frame) noexcept;

}  // namespace weft::roce
