// SPDX-License-Identifier: BSD-3-Clause
// SEND and WRITE messages, cut into packets of the path MTU and put together again: what RC and UC
// share. What a wrong packet leads to is the service's business: each check ends in a Verdict. How
// a message is sent is message_send.hpp.
#pragma once

#include "lib/roce/engine.hpp"
#include "lib/roce/message/outcome.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/frame_builder.hpp"

namespace weft::roce {

// What serving a queue pair ended with.
enum class Served : uint8_t {
  idle,  // nothing (more) to send until something happens
  more,  // stopped at the quantum or for lack of room: serve it again
};

// message_receive.cpp
// In one word: of three bytes, which are written one by one and returned together, each would have
// to leave the store buffer first, behind the payload that was just placed.
class Verdict {
 public:
  enum class Kind : uint8_t {
    accept,
    nak,   // refused: `syndrome` says why
    rnr,   // no receive is posted
    drop,  // the payload could not be pulled
  };
  constexpr Verdict(Kind kind = Kind::accept) : word_(static_cast<uint8_t>(kind)) {}
  // `status`: the receive in use ends with this.
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
inline bool length_fits(const Engine& engine, const QueuePair& qp,
                        const wire::Packet& packet) noexcept {
  if (!packet.info->ends_message()) return packet.payload_length == qp.mtu() && packet.pad == 0;
  if (packet.payload_length > qp.mtu()) return false;
  if (packet.info->place == wire::Place::last && packet.payload_length == 0) return false;
  //= roce:C-HDR-3 frames without an ICRC have no pad either
  return !packet.info->payload || !engine.checks_icrc() ||
         ((packet.payload_length + packet.pad) & 3) == 0;
}

// Executes a packet of a SEND or WRITE that is in order.
Verdict execute_message(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                        const Frame& frame) noexcept;

}  // namespace weft::roce
