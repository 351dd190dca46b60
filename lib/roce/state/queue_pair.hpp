// SPDX-License-Identifier: BSD-3-Clause
// The state of one RC, UC, UD or XRC queue pair: a value with two halves that share only the
// address. The requester sends our requests and accepts responses; the responder executes the
// peer's requests and answers them. The functions over it are in rc/ and unreliable/. XRC is RC of
// which each end has one half; message/shared_receives.hpp says where its requests go.
//
// The cache lines that a packet touches are declared, and no two queue pairs share one: two for the
// address, two for the requester, three for the responder, one for each ring with its list link.
// What follows is for set-up and rare events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "lib/base/line.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/memory/key_table.hpp"
#include "lib/roce/recovery/round_trip.hpp"
#include "lib/roce/recovery/selective_repeat.hpp"
#include "lib/roce/state/early_packets.hpp"
#include "lib/roce/state/habits.hpp"
#include "lib/roce/state/pacer.hpp"
#include "lib/roce/state/rate_limiter.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/ack_delay.hpp"
#include "lib/transport/completion_queue.hpp"
#include "lib/transport/frame.hpp"
#include "lib/transport/shared_receives.hpp"
#include "lib/transport/stopped_peer.hpp"
#include "lib/transport/work_queue.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/opcode.hpp"
#include "weft/qp.hpp"

namespace weft::roce {

// An RD-atomic resource (IBTA 9.4.4): a READ, atomic, ATOMIC WRITE or FLUSH that was executed,
// kept for duplicates (//= roce:C-DUP-25 C-DUP-27) and, while `queued`, until its response left.
struct Resource {
  enum class Kind : uint8_t { none, read, atomic, write_or_flush };  // ATOMIC WRITE, FLUSH
  Kind kind = Kind::none;
  bool queued = false;
  bool replay = false;   // queued for a duplicate: dropped if a new request needs the resource
  Psn first;             // of the request as first received
  uint32_t packets = 0;  // PSNs it covers
  uint32_t rkey = 0;
  uint32_t domain = 0;  // in which `rkey` is valid
  uint64_t address = 0;
  uint32_t length = 0;
  uint64_t original = 0;  // atomic: the value before
  // The response in progress: the whole READ, or the part that a duplicate requested again.
  Psn reply_psn;
  uint64_t reply_address = 0;
  uint32_t reply_length = 0;
  uint32_t reply_sent = 0;  // bytes
};

struct alignas(kCacheLine) Requester {
  std::unique_ptr<Pacer> pacer;      // congestion control; null: none
  Scoreboard* scoreboard = nullptr;  // null: no outstanding PSN is known to be held or missing
  uint64_t una = 0;                  // oldest PSN not acknowledged
  uint64_t next = 0;                 // next PSN to send; less than `sent_end` after a rewind
  uint64_t sent_end = 0;             // highest PSN ever sent, plus one
  uint64_t post_end = 0;             // first PSN of the next request to be posted
  uint32_t next_index = 0;           // send cursor: the entry that holds `next`, or the tail
  uint32_t post_ssn = 1;
  uint64_t in_flight = 0;          // bytes charged to the destination's window
  uint16_t since_ack_request = 0;  // packets
  bool paced = false;              // by `pacer` or by the rate limit: packets may have to wait
  uint8_t ack_request_after = 15;  // packets of a message without one
  uint32_t ssn_limit = 0;          // credits: SENDs up to this SSN may be sent (//= roce:C-ACK-34)
  bool credits_unlimited = true;
  bool response_gap = false;  // a response was lost and requested again: wait for the PSN at `una`
  bool drain_event = false;   // SQD: raise sq_drained when drained
  uint8_t retries_left = 0;
  uint8_t rnr_left = 0;
  bool timed = false;    // the packet at `una` started the timer of retry_at when it left
  bool probing = false;  // the end of what was sent is to be sent again
  uint8_t probes = 0;    // since that timer was started
  Instant retry_at = Instant::never();   // retransmission timeout
  Instant rnr_until = Instant::never();  // never(): no RNR wait
  // READ chunks and atomics in flight: their end PSNs, oldest first.
  std::unique_ptr<uint64_t[]> reads;
  uint32_t reads_head = 0;
  uint32_t reads_tail = 0;
  uint32_t reads_mask = 0;   // the ring's size - 1: max_rd_atomic, rounded up to a power of two
  uint32_t read_chunk = 64;  // PSNs one READ request may ask for; power of two
  RoundTrip round_trip;      // unknown where ports lose nothing
};
static_assert(sizeof(Requester) == 2 * kCacheLine);

inline void stop_probes(Requester& req) noexcept {
  req.timed = req.probing = false;
  req.probes = 0;
}

struct alignas(kCacheLine) Responder {
  enum class Message : uint8_t { none, send, write };
  Psn expected;
  Psn ack_end;  // PSN behind the last SEND or WRITE: an ACK acknowledges what is before it
  Gap gap;      // the sequence gap at `expected`, if later requests arrived
  Psn far_ahead_expected;
  uint32_t msn = 0;
  Message message = Message::none;
  bool nak_outstanding = false;  // a NAK was sent for `expected` (//= roce:C-PSN-19)
  bool ack_queued = false;       // a delayed acknowledgement
  bool nak_queued = false;       // with nak_syndrome
  uint8_t nak_syndrome = 0;
  uint8_t advertised = 31;          // last credit code sent
  bool cnp_queued = false;          // a request arrived with an ECN mark
  bool report_queued = false;       // READ responses arrived, on a connection with telemetry
  Psn report_psn;                   // of the response that arrived last
  bool requests_first = false;      // paced: requests and responses alternate in going first
  bool duplicate_ack_owed = false;  // a duplicate requested an ACK before next_duplicate_ack_at
  uint16_t early_window = kEarlyWindow;  // PSNs ahead that are buffered
  std::unique_ptr<wire::IntBlock> echo;  // telemetry that the next ACK returns; null: not agreed
  AckDelay ack_delay;                    // how long the delayed acknowledgement waits
  Instant next_duplicate_ack_at;         // duplicate SENDs and WRITEs are not acknowledged earlier
  // Since then a request far ahead is here and `expected` was far_ahead_expected; never(): none is.
  Instant far_ahead_since = Instant::never();
  Holes* holes = nullptr;  // null: none, or the peer goes back N
  uint32_t write_key = 0;  // current WRITE
  uint32_t write_length = 0;
  uint64_t write_address = 0;
  uint64_t received = 0;  // bytes of the current message
  // RD-atomic resources: a ring; [reply_head, reply_tail) of reply_order are `queued` and leave in
  // FIFO order.
  std::unique_ptr<Resource[]> resources;
  std::unique_ptr<uint8_t[]> reply_order;  // ring of resource indices
  uint32_t resource_tail = 0;
  uint32_t resource_count = 0;
  uint32_t reply_head = 0;
  uint32_t reply_tail = 0;
};
static_assert(sizeof(Responder) == 3 * kCacheLine);

struct QueuePair;

// The timer of a queue pair: leads from the node that the wheel returns to its owner.
struct QpTimer : base::TimerNode {
  QueuePair* owner = nullptr;
};

struct Destination;

// Where a UD request goes.
struct Datagram {
  Path path;
  QpNum dest;
  uint32_t qkey = 0;
  Rate rate{};  // static rate of the path; 0: none
};

// Identity and addresses: read by every packet, changed by modify() only.
struct alignas(kCacheLine) QueuePairAddress {
  QpNum number;
  QpNum peer;
  QpState state = QpState::reset;
  QpType type = QpType::rc;
  wire::OpClass service = wire::OpClass::rc;  // of the packets that it accepts
  uint8_t mtu_shift = 12;
  bool signal_all = false;
  bool telemetry = false;    // agreed with the peer: each frame has a block before its BTH
  bool established = false;  // COMM_EST was raised, or the service has none
  bool probes = false;       // packets may be lost, and the end of what was sent is probed
  Access access = Access::none;
  uint32_t domain = 0;                 // XRC target: that of the shared receive queue in use
  uint32_t qkey = 0;                   // UD
  Path path;                           // UD: what all its datagrams have in common
  Destination* destination = nullptr;  // RC, XRC
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  SharedReceives* shared = nullptr;  // then `rq` holds the receive of the message in progress
  uint32_t xrc_domain = 0;           // XRC target: of the receive queues that requests may name
  uint32_t max_inline = 0;
  uint32_t bth_constants = wire::bth_constants(true);
};
static_assert(sizeof(QueuePairAddress) == 2 * kCacheLine);

struct QueuePair : QueuePairAddress {
  Requester req;
  Responder res;
  alignas(kCacheLine) WorkRing<SendEntry> sq;
  base::LineLink<QueuePair> active;  // has something to send
  alignas(kCacheLine) WorkRing<RecvEntry> rq;
  base::LineLink<QueuePair> ack_link;  // of AckSchedule
  static_assert(sizeof sq + sizeof active == kCacheLine &&
                sizeof rq + sizeof ack_link == kCacheLine);

  base::LineLink<QueuePair> window_wait;  // waits for its destination's window
  base::LineLink<QueuePair> notices;      // of NoticeQueue
  base::LineLink<QueuePair> transmitted;  // UC, UD: the port is taking its frames
  std::unique_ptr<Datagram[]> datagrams;  // UD: where each entry of `sq` goes
  QpTimer timer{{}, this};
  Instant next_cnp_at;                         // no CNP to the peer earlier
  std::unique_ptr<SelectiveRepeat> selective;  // null: not agreed with the peer
  RateLimiter limiter;
  Duration retry_delay;  // the retransmission timeout; zero: none. After time-outs it may be longer
  uint8_t expired = 0;   // time-outs since the last progress, if they make it longer
  transport::StoppedPeer stopped;

  std::unique_ptr<congestion::Preset> preset;  // its own controller; null: the device's
  QueuePairAttributes attributes;              // as set by modify(), for query()

  // With which rights its peer's requests access memory.
  memory::AccessContext access_context() const { return {domain, number.value}; }
  uint32_t mtu() const { return 1u << mtu_shift; }
  bool reliable() const { return type == QpType::rc || is_xrc(type); }
  // Takes receives from a shared receive queue; an XRC target from the one that a request names.
  bool shares() const { return shared != nullptr || type == QpType::xrc_target; }
  bool can_respond() const {
    if (type == QpType::xrc_initiator) return false;
    return state == QpState::rtr || state == QpState::rts || state == QpState::sqd ||
           state == QpState::sqe;
  }
  bool can_request() const {
    return (state == QpState::rts || state == QpState::sqd) && type != QpType::xrc_target;
  }
  // All that was sent is acknowledged, and no message is partly sent. //= roce:C-STATE-64
  bool drained() const {
    return req.una == req.sent_end &&
           (req.next_index == sq.tail() || sq[req.next_index].first_psn == req.next);
  }
  // Sets the retransmission timeout, after `times` time-outs without progress.
  void set_retry_delay(RetryTimer timer, uint8_t times) {
    expired = times;
    retry_delay = roce::retry_delay(timer, attributes.timeout.value_or(0), times);
  }
  // The peer answered last, or the first packet left then. While the timer of retry_at runs.
  Instant silent_since() const {
    const Instant start = req.retry_at - retry_delay;
    return req.scoreboard == nullptr ? start : std::max(start, req.scoreboard->answered_at);
  }
  // When the end of what was sent is probed.
  Instant probe_at() const {
    if (req.retry_at.is_never() || !req.round_trip.known() || req.probes == RoundTrip::kMostProbes)
      return Instant::never();
    // A peer that goes back N says itself what is missing before so many.
    constexpr uint64_t kTail = 16;
    if (selective == nullptr && req.next - req.una > kTail) return Instant::never();
    return silent_since() + req.round_trip.probe_after(req.probes);
  }
  uint32_t reads_in_flight() const { return req.reads_tail - req.reads_head; }
};
static_assert(alignof(QueuePair) == kCacheLine && sizeof(QueuePair) <= 14 * kCacheLine);

}  // namespace weft::roce
