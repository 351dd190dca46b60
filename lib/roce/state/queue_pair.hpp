// SPDX-License-Identifier: BSD-3-Clause
// The state of one RC, UC, UD or XRC queue pair: a value with two halves that share only the
// address. The requester sends our requests and believes answers; the responder executes the peer's
// requests and answers them. The functions that move it are in rc/, uc/ and ud/, where nothing is
// answered. XRC is RC of which each end has one half; where its requests go, shared_receives.hpp
// says.
//
// The lines of cache that a packet touches are declared, and each queue pair has them for itself:
// two for the address, two for the requester and three for the responder, one for each ring with
// its place in line. What is behind those is for set-up and for rare events.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/line.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/memory/key_table.hpp"
#include "lib/roce/state/early_packets.hpp"
#include "lib/roce/state/pacer.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/ack_patience.hpp"
#include "lib/transport/completion_queue.hpp"
#include "lib/transport/frame.hpp"
#include "lib/transport/shared_receives.hpp"
#include "lib/transport/work_queue.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/opcode.hpp"
#include "weft/qp.hpp"

namespace weft::roce {

// A READ, an atomic or an effect that the responder executed: kept for replay (//= roce:C-DUP-25
// C-DUP-27) and, while `queued`, waiting for its response to leave.
struct Resource {
  enum class Kind : uint8_t { none, read, atomic, effect };  // an effect: ATOMIC WRITE, FLUSH
  Kind kind = Kind::none;
  bool queued = false;
  bool replay = false;   // queued for a duplicate: nobody needs the answer any more when a new
                         // request wants the place
  Psn first;             // of the request as first received
  uint32_t packets = 0;  // PSNs it covers
  uint32_t rkey = 0;
  uint32_t msn = 0;     // after its execution
  uint32_t domain = 0;  // in which `rkey` is valid
  uint64_t address = 0;
  uint32_t length = 0;
  uint64_t original = 0;  // atomic: the value before
  // The reply in progress: the whole READ, or the part that a duplicate asked for again.
  Psn reply_psn;
  uint64_t reply_address = 0;
  uint32_t reply_length = 0;
  uint32_t reply_sent = 0;  // bytes
};

struct alignas(kCacheLine) Requester {
  std::unique_ptr<rc::Pacer> pacer;  // congestion control; null: none
  uint64_t una = 0;                  // oldest PSN not acknowledged
  uint64_t next = 0;                 // next PSN to send; less than `sent_end` after a rewind
  uint64_t sent_end = 0;             // highest PSN ever sent, plus one
  uint64_t post_end = 0;             // first PSN of the next request to be posted
  uint32_t next_index = 0;           // entry that holds `next`, or the tail
  uint32_t post_ssn = 1;
  uint64_t in_flight = 0;          // bytes charged to the destination
  uint32_t since_ack_request = 0;  // packets
  uint32_t ssn_limit = 0;          // credits: SENDs up to this SSN may go (//= roce:C-ACK-34)
  bool credits_unlimited = true;
  bool response_gap = false;  // a response was lost: wait for the PSN at `una`
  bool drain_event = false;   // SQD: tell when drained
  uint8_t retries_left = 0;
  uint8_t rnr_left = 0;
  Instant retry_at = Instant::never();   // retransmission time-out
  Instant rnr_until = Instant::never();  // never() = not waiting
  // READ chunks and atomics in flight: their end PSNs, oldest first.
  std::unique_ptr<uint64_t[]> reads;
  uint32_t reads_head = 0;
  uint32_t reads_tail = 0;
  uint32_t reads_mask = 0;   // the ring's size - 1: max_rd_atomic, rounded up to a power of two
  uint32_t read_chunk = 64;  // PSNs one READ request may ask for; power of two
};
static_assert(sizeof(Requester) == 2 * kCacheLine);

struct alignas(kCacheLine) Responder {
  enum class Message : uint8_t { none, send, write };
  Psn expected;
  Psn told_by_acks;  // behind the last SEND or WRITE: an ACK speaks for what is before it
  rc::Gap gap;       // before `expected`, if requests came early
  Psn far_expected;
  uint32_t msn = 0;
  Message message = Message::none;
  bool nak_sent = false;    // a NAK is out for `expected` (//= roce:C-PSN-19)
  bool ack_queued = false;  // an ACK waits to leave
  bool nak_queued = false;  // nak_syndrome waits to leave
  uint8_t nak_syndrome = 0;
  uint8_t advertised = 31;               // last credit code sent
  bool owes_cnp = false;                 // a request came marked
  bool owes_report = false;              // READ responses came, on a connection with telemetry
  Psn reported;                          // the response that came last
  bool replies_last = false;             // of a paced queue pair: its requests have their turn
  std::unique_ptr<wire::IntBlock> echo;  // what the next ACK says of the way here; null: nothing
  AckPatience ack_patience;              // until the waiting ACK leaves
  Instant duplicates_quiet_until;        // no answer to duplicate SENDs and WRITEs before
  Instant far_since;                     // a request far ahead found `expected` where it is
  uint32_t write_key = 0;                // current WRITE
  uint64_t write_address = 0;
  uint64_t received = 0;  // bytes of the current message
  uint32_t write_length = 0;
  // READ and atomic resources: a ring; [send_head, tail) of those `queued` leave in FIFO order.
  std::unique_ptr<Resource[]> resources;
  std::unique_ptr<uint8_t[]> reply_order;  // ring of resource indices
  uint32_t resource_tail = 0;
  uint32_t resource_count = 0;
  uint32_t reply_head = 0;
  uint32_t reply_tail = 0;
};
static_assert(sizeof(Responder) == 3 * kCacheLine);

struct QueuePair;

// The timer of a queue pair: what the wheel gives back leads to its owner.
struct QpTimer : base::TimerNode {
  QueuePair* owner = nullptr;
};

struct Destination;

// Where a UD request goes.
struct Datagram {
  Path path;
  QpNum dest;
  uint32_t qkey = 0;
};

// Who it is and where its packets go: read by all of them, changed by modify() only.
struct alignas(kCacheLine) QueuePairAddress {
  QpNum number;
  QpNum peer;
  QpState state = QpState::reset;
  QpType type = QpType::rc;
  wire::OpClass service = wire::OpClass::rc;  // of the packets that it takes
  uint8_t mtu_shift = 12;
  bool signal_all = false;
  bool telemetry = false;    // agreed with the peer: each frame has a block before its BTH
  bool established = false;  // the COMM_EST event was given, or the service has none
  Access access = Access::none;
  uint32_t domain = 0;                 // XRC target: that of the pool in use
  uint32_t qkey = 0;                   // UD
  Path path;                           // UD: what all its datagrams have in common
  Destination* destination = nullptr;  // RC, XRC
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  SharedReceives* shared = nullptr;  // then `rq` holds the receive of the message in flight
  uint32_t xrc_domain = 0;           // XRC target: of the pools that become `shared`
  uint32_t max_inline = 0;
};
static_assert(sizeof(QueuePairAddress) == 2 * kCacheLine);

struct QueuePair : QueuePairAddress {
  Requester req;
  Responder res;
  alignas(kCacheLine) WorkRing<SendEntry> sq;
  base::LineLink<QueuePair> active;  // of those with something to send
  alignas(kCacheLine) WorkRing<RecvEntry> rq;
  base::LineLink<QueuePair> ack_line;  // of those whose acknowledgement waits
  static_assert(sizeof sq + sizeof active == kCacheLine &&
                sizeof rq + sizeof ack_line == kCacheLine);

  base::LineLink<QueuePair> waiting;      // for its destination's window
  base::LineLink<QueuePair> notices;      // of those that owe their peer a CNP or a report
  base::LineLink<QueuePair> handed;       // UC, UD: of those whose frames the port takes now
  std::unique_ptr<Datagram[]> datagrams;  // UD: where each entry of `sq` goes
  QpTimer timer{{}, this};
  Instant cnp_quiet_until;  // no CNP to the peer before

  std::unique_ptr<congestion::Preset> preset;  // its own controller; null: the device's
  QueuePairAttributes attributes;              // as set by modify(), for query()

  // As whom its peer touches memory.
  memory::AccessContext access_context() const { return {domain, number.value}; }
  uint32_t mtu() const { return 1u << mtu_shift; }
  bool reliable() const { return type == QpType::rc || is_xrc(type); }
  // Takes its receives from a pool; an XRC target from those that its peer names.
  bool shares() const { return shared != nullptr || type == QpType::xrc_target; }
  bool can_respond() const {
    if (type == QpType::xrc_initiator) return false;
    return state == QpState::rtr || state == QpState::rts || state == QpState::sqd ||
           state == QpState::sqe;
  }
  bool can_request() const {
    return (state == QpState::rts || state == QpState::sqd) && type != QpType::xrc_target;
  }
  // All that was sent is acknowledged, and no message is half sent. //= roce:C-STATE-64
  bool drained() const {
    return req.una == req.sent_end &&
           (req.next_index == sq.tail() || sq[req.next_index].first_psn == req.next);
  }
  uint32_t reads_in_flight() const { return req.reads_tail - req.reads_head; }
};
static_assert(alignof(QueuePair) == kCacheLine && sizeof(QueuePair) <= 14 * kCacheLine);

}  // namespace weft::roce
