// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: a send queue, a receive queue and the transport between them and a peer.
//
// State machine (IBTA 10.3.1, //= roce:C-STATE-54): RESET -> INIT -> RTR -> RTS, ERR from any state
// but RESET, RESET from any state. connect() and Listener in connect.hpp make all transitions;
// modify() makes one, as in verbs. An XRC initiator takes the attributes of RC without those of a
// responder (max_dest_rd_atomic, min_rnr_timer), an XRC target without those of a requester
// (max_rd_atomic, timeout, retry_count, rnr_retry). Automatic path migration is not supported; the
// MigReq bit of packets is ignored.
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

// Attributes of a queue pair at creation.
struct QueuePairOptions {
  QpType type = QpType::rc;
  CompletionQueue send_cq{};   // not needed by XRC targets
  CompletionQueue recv_cq{};   // may be send_cq; not needed by XRC
  uint32_t max_send_wr = 128;  // requests outstanding in the send queue
  uint32_t max_recv_wr = 128;  // receives posted and not completed; 0: it takes none
  uint32_t max_send_sge = 4;   // scatter/gather entries of a send request
  uint32_t max_recv_sge = 4;   // scatter/gather entries of a receive
  uint32_t max_inline = 64;    // bytes of a request with SendFlags::inline_data
  bool signal_all = false;     // every send request is signaled
  // RC and XRC on roce: the name of a congestion controller to use instead of the device's cc=
  // ("hpcc", "dcqcn-nic+win", "none"), with the device's cc_line_mbps and cc_rtt_us. Empty: the
  // device's controller.
  std::string congestion{};
  // If set, receives are taken from this queue of the same domain, and max_recv_wr and max_recv_sge
  // are ignored.
  SharedReceiveQueue shared_receive_queue{};
  XrcDomain xrc_domain{};  // of an XRC target: srq.hpp
};

// The sizes that a queue pair has, which may be more than those asked for (verbs: ibv_qp_cap).
struct QueuePairCapacities {
  uint32_t max_send_wr = 0;   // 0: an XRC target
  uint32_t max_recv_wr = 0;   // 0: none of its own (a shared receive queue, XRC, or as asked)
  uint32_t max_send_sge = 0;  // at least 1 where there is a send queue
  uint32_t max_recv_sge = 0;  // at least 1 where there is a receive queue
  uint32_t max_inline = 0;    // bytes
};

// How fast a queue pair sends SENDs, WRITEs and READ responses, whatever congestion control says
// (verbs: ibv_modify_qp_rate_limit). In bits per second of the link: an Ethernet frame with
// preamble and gap. Requests of READs and atomics, acknowledgements and CNPs are not limited, and
// while it has a limit an RC queue pair requests an acknowledgement of each packet.
struct RateLimit {
  Rate rate{};  // 0: no limit
  // Bytes of the link that may leave at once after a pause, or to make up for a delay; 0: what the
  // rate gives in pacing_quantum_us (10). Less than that costs rate, as timers have ticks of 2 us.
  uint32_t max_burst = 0;
};

// The attributes of modify(): those that are set are changed. IBTA table 11.2.5.2 says which ones a
// transition requires and allows (//= roce:C-STATE-55..57); the error names the missing one.
struct QueuePairAttributes {
  std::optional<QpState> state{};          // the state to move to
  std::optional<QpState> current_state{};  // the expected current state; error if it differs
  std::optional<uint16_t> pkey_index{};    // 0
  std::optional<uint8_t> port{};           // 1
  std::optional<Access> access{};          // remote operations of the peer: remote_*, flush_*
  std::optional<uint32_t> qkey{};          // UD, SRD: Q_Key that SENDs to it must carry
  std::optional<AddressVector> path{};     // address of the peer
  std::optional<uint32_t> path_mtu{};      // bytes: a power of two, 256 .. the port's max_mtu
  std::optional<QpNum> dest_qpn{};         // queue pair number of the peer
  std::optional<Psn> rq_psn{};             // first PSN of the peer's requests
  std::optional<Psn> sq_psn{};             // first PSN of our requests
  // READs and atomics that the peer may have outstanding at our responder.
  std::optional<uint8_t> max_dest_rd_atomic{};
  // READs and atomics that we may have outstanding at the peer.
  std::optional<uint8_t> max_rd_atomic{};
  std::optional<uint8_t> min_rnr_timer{};  // index of the RNR timer table (C-NAK-42)
  std::optional<uint8_t> timeout{};        // 4.096 us * 2^timeout, 0 = never (C-RETRY-46)
  std::optional<uint8_t> retry_count{};    // 0..7; 7 is seven, not without limit (C-RETRY-47)
  std::optional<uint8_t> rnr_retry{};      // 0..7, 7 = without limit (C-RETRY-48)
  std::optional<bool> sq_drained_event{};  // RTS -> SQD: raise EventType::sq_drained
  // INIT -> RTR of RC and XRC: frames carry telemetry (lib/wire/INT.md). Must be the same on both
  // sides, whose devices both support it; connect() negotiates it.
  std::optional<bool> telemetry{};
  // INIT -> RTR of RC: a loss is repaired by sending only what is missing again
  // (lib/wire/SACK.md). Must be the same on both sides; connect() and CmId agree on it.
  std::optional<bool> selective_repeat{};
  // To RTS, and in RTS and SQD, on roce and on devices of ibverbs that have it. The lower one of
  // this and AddressVector::static_rate holds.
  std::optional<RateLimit> rate_limit{};
  // Only of query(), in SQD: requests that were being sent are not finished yet.
  std::optional<bool> sq_draining{};
};

// A handle of a queue pair. Copies name the same queue pair, which is destroyed with the last copy.
// Any thread.
class QueuePair {
 public:
  QueuePair() = default;
  explicit operator bool() const noexcept { return qp_ != nullptr; }

  // The queue pair number, unique on the device.
  QpNum number() const noexcept;
  // The transport service.
  QpType type() const noexcept;
  // The current state, which the device may change to SQE or ERR at any time.
  QpState state() const noexcept;
  // The device that it belongs to.
  const Device& device() const noexcept;

  // Changes state and attributes. Errors: invalid_argument (names the attribute that is missing,
  // out of range or not allowed in this transition), bad_state (not a legal transition).
  Result<void> modify(const QueuePairAttributes& attributes) const;
  // The current values of all attributes that modify() has set since RESET.
  QueuePairAttributes query() const;
  // Its sizes, which do not change.
  QueuePairCapacities capacities() const noexcept;

  // Posts send requests in order and stops at the first invalid one. Legal in RTS and SQD; in ERR
  // requests are accepted and flushed. The memory that a request names belongs to the device until
  // it completes (SendRequest in wr.hpp). Errors: queue_full, bad_state, invalid_argument.
  // When packets leave (roce, srd): inside the call, as far as the window is open. Only if the
  // program has polled within 20 us of its posts 16 times in a row, requests from the third call
  // after a poll on are held, to leave together: with the 64th, with a long one, with the next
  // poll() or wait(); one that then does not poll waits once for 0.4 ms. With single_thread=1 they
  // are always held, until the program calls poll() or Device::progress().
  PostStatus post_send(std::span<const SendRequest> requests) const noexcept;
  // Posts one send request.
  PostStatus post_send(const SendRequest& request) const noexcept {
    return post_send({&request, 1});
  }
  // Posts receives in order and stops at the first invalid one. Legal in all states but RESET.
  // Errors: queue_full, bad_state, invalid_argument.
  PostStatus post_recv(std::span<const RecvRequest> requests) const noexcept;
  // Posts one receive.
  PostStatus post_recv(const RecvRequest& request) const noexcept {
    return post_recv({&request, 1});
  }

  // UD: joins a multicast group, an address such as 239.1.2.3 or ff15::1 of the device's family.
  // The queue pair then receives each datagram to the group that carries its Q_Key, also from other
  // queue pairs of this device, but not its own (behind `ibverbs` the kernel may loop them back).
  // Legal in any state. Attaching twice has the effect of once. Destruction detaches. Errors:
  // invalid_argument, not_supported (a port without multicast), io_error. See verbs:
  // ibv_attach_mcast.
  Result<void> attach_multicast(const Gid& group) const;
  // UD: leaves a multicast group. Error: not_found (not attached), and those of attach_multicast().
  Result<void> detach_multicast(const Gid& group) const;

  // For providers.
  const std::shared_ptr<verbs::Qp>& impl() const noexcept { return qp_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Qp> qp_;
};

}  // namespace weft
