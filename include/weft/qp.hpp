// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: two queues of work requests and the connection that carries them.
//
// State machine (IBTA 10.3.1, //= roce:C-STATE-54): RESET -> INIT -> RTR -> RTS, ERR from
// anywhere but RESET, RESET from anywhere. connect() and listen() in connect.hpp do the whole walk;
// modify() does it step by step as verbs do; an XRC initiator takes RC's attributes without those
// of who answers (max_dest_rd_atomic, min_rnr_timer), an XRC target without those of who asks
// (max_rd_atomic, timeout, retry_count, rnr_retry). A queue pair has one path: automatic path
// migration is not supported, and the migration bit of packets is ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "weft/cq.hpp"
#include "weft/mr.hpp"
#include "weft/srq.hpp"
#include "weft/types.hpp"
#include "weft/wr.hpp"

namespace weft {

namespace verbs {
class Qp;
}

struct QueuePairOptions {
  QpType type = QpType::rc;
  CompletionQueue send_cq;     // XRC targets need none
  CompletionQueue recv_cq;     // may be the same; XRC needs none
  uint32_t max_send_wr = 128;  // requests outstanding in the send queue
  uint32_t max_recv_wr = 128;
  uint32_t max_send_sge = 4;
  uint32_t max_recv_sge = 4;
  uint32_t max_inline = 64;  // bytes
  bool signal_all = false;   // every send request is signaled
  // RC and XRC on roce: its own congestion controller in place of the device's cc=, by name
  // ("hpcc", "dcqcn-nic+win", "none"), for the device's cc_line_mbps and cc_rtt_us. Empty: the
  // device's.
  std::string congestion;
  // Where receives come from; then max_recv_wr and max_recv_sge are its own. Of the same domain.
  SharedReceiveQueue shared_receive_queue;
  XrcDomain xrc_domain;  // of an XRC target: srq.hpp
};

// The attributes of modify(): those that are set are changed. Which a transition needs, and which
// it allows, is IBTA table 11.2.5.2 (//= roce:C-STATE-55..57); the error names what is missing.
struct QueuePairAttributes {
  std::optional<QpState> state;
  std::optional<QpState> current_state;
  std::optional<uint16_t> pkey_index;
  std::optional<uint8_t> port;   // 1
  std::optional<Access> access;  // what the peer may do: remote_*, flush_*
  std::optional<uint32_t> qkey;  // UD
  std::optional<AddressVector> path;
  std::optional<uint32_t> path_mtu;  // bytes: a power of two, 256 .. the port's max_mtu
  std::optional<QpNum> dest_qpn;
  std::optional<Psn> rq_psn;
  std::optional<Psn> sq_psn;
  std::optional<uint8_t>
      max_dest_rd_atomic;                // READs and atomics the peer may have outstanding here
  std::optional<uint8_t> max_rd_atomic;  // READs and atomics we may have outstanding there
  std::optional<uint8_t> min_rnr_timer;  // index into the RNR timer table (C-NAK-42)
  std::optional<uint8_t> timeout;        // 4.096 us * 2^timeout, 0 = never (C-RETRY-46)
  std::optional<uint8_t> retry_count;    // 0..7, 7 is seven (C-RETRY-47)
  std::optional<uint8_t> rnr_retry;      // 0..7, 7 = for ever (C-RETRY-48)
  std::optional<bool> sq_drained_event;  // RTS -> SQD: ask for EventType::sq_drained
  // INIT -> RTR of RC and XRC: frames carry telemetry (lib/wire/INT.md). Both sides must say the
  // same and be on devices that have it; connect() sees to that.
  std::optional<bool> telemetry;
};

class QueuePair {
 public:
  QueuePair() = default;
  explicit operator bool() const noexcept { return qp_ != nullptr; }

  QpNum number() const noexcept;
  QpType type() const noexcept;
  QpState state() const noexcept;
  const Device& device() const noexcept;

  // Errors: invalid_argument (which attribute is missing, out of range or not allowed), bad_state.
  Result<void> modify(const QueuePairAttributes& attributes) const;
  // All attributes in force.
  QueuePairAttributes query() const;

  // Posts requests in order, stopping at the first bad one. Legal in RTS and SQD; in ERR requests
  // are accepted and flushed. Errors: queue_full, bad_state, invalid_argument.
  // Software devices send at once what the first two calls after a poll post; what more calls post
  // waits for 64 requests, a long one, the next poll or wait(), or a millisecond at most (with
  // single_thread=1 no such time: poll, or call Device::progress()).
  PostStatus post_send(std::span<const SendRequest> requests) const noexcept;
  PostStatus post_send(const SendRequest& request) const noexcept {
    return post_send({&request, 1});
  }
  // Legal from INIT on.
  PostStatus post_recv(std::span<const RecvRequest> requests) const noexcept;
  PostStatus post_recv(const RecvRequest& request) const noexcept {
    return post_recv({&request, 1});
  }

  // UD: takes part in a multicast group, an address like 239.1.2.3 or ff15::1 of the device's
  // family: each datagram to the group that carries this queue pair's Q_Key is received here too,
  // those of other queue pairs of this device included, its own not (a device of the kernel may
  // bring them back). In any state; joining twice is joining once; the end of the queue pair ends
  // it. Errors: invalid_argument, not_supported (a port without multicast), io_error; detach of
  // what is not attached: not_found.
  Result<void> attach_multicast(const Gid& group) const;
  Result<void> detach_multicast(const Gid& group) const;

  const std::shared_ptr<verbs::Qp>& impl() const noexcept { return qp_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Qp> qp_;
};

}  // namespace weft
