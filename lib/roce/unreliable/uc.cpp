// SPDX-License-Identifier: BSD-3-Clause
// UC packets at the responder. A packet that is missing or invalid ends the message in progress: it
// is dropped silently, and so are later packets until a FIRST or ONLY begins another message. The
// receive that a dropped SEND was using stays the oldest.
#include "lib/roce/message/receive.hpp"
#include "lib/roce/unreliable/unreliable.hpp"

namespace weft::roce::uc {

namespace {

using Message = Responder::Message;

void drop_message(EngineState& engine, QueuePair& qp, Count reason) noexcept {
  engine.count(reason);
  qp.res.message = Message::none;
}

// Handles a packet whose execution failed.
void on_invalid(EngineState& engine, QueuePair& qp, const Verdict& verdict) noexcept {
  if (verdict.receive_status() == Status::local_protection_error) return fail_receive(engine, qp);
  if (verdict.receive_status() == Status::local_length_error)
    return drop_message(engine, qp, Count::rx_too_long);
  const bool access = verdict.syndrome() == wire::kNakRemoteAccess;
  drop_message(engine, qp, access ? Count::access_errors : Count::request_errors);
}

}  // namespace

//= roce:C-PSN-20
void on_request(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                const Frame& frame) noexcept {
  WEFT_DCHECK(qp.type == QpType::uc && qp.can_respond());
  Responder& res = qp.res;
  const bool gap = packet.psn != res.expected;
  const bool starts = packet.info->starts_message();
  res.expected = packet.psn + 1;
  if (gap) engine.count(Count::rx_out_of_sequence);
  if (res.message != Message::none && (gap || starts))
    drop_message(engine, qp, Count::rx_message_lost);
  if (!starts && res.message == Message::none) return engine.count(Count::rx_message_rest);
  if (!in_order(qp, packet) || !length_fits(engine, qp, packet))
    return drop_message(engine, qp, Count::request_errors);
  const Verdict verdict = execute_message(engine, qp, packet, frame);
  switch (verdict.kind()) {
    case Verdict::Kind::accept:
      return;
    case Verdict::Kind::drop:
      return drop_message(engine, qp, Count::rx_pull_failed);
    case Verdict::Kind::rnr:
      return drop_message(engine, qp, Count::rx_no_receive);
    case Verdict::Kind::nak:
      return on_invalid(engine, qp, verdict);
  }
}

}  // namespace weft::roce::uc
