// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues (SRQ): receives that many queue pairs, of any service, take from, so that a
// server needs buffers for the messages in flight instead of a full receive queue per connection. A
// message takes the oldest receive when its first packet arrives, and completes in the recv_cq of
// its own queue pair. Messages of different queue pairs have no order.
//
// XRC (extended reliable connection, IBTA, annex XRC): one connection reaches many shared receive
// queues. The requester is a queue pair of type xrc_initiator, the responder one of type
// xrc_target, which belongs to an XRC domain. A shared receive queue of the same domain has a
// number, and each request names the number of its queue: a SEND or WRITE_WITH_IMM takes a receive
// there and completes in that queue's `cq`; a WRITE, READ or atomic accesses memory of that queue's
// protection domain. So a process needs one connection to a host instead of one to each process
// there:
//
//   server                                        client
//   auto xrc = *device.xrc_domain();              auto qp = *pd.queue_pair({
//   auto srq = *pd.shared_receive_queue(              .type = weft::QpType::xrc_initiator,
//       {.xrc_domain = xrc, .cq = cq});               .send_cq = cq});
//   auto qp = *pd.queue_pair({                    auto c = *weft::connect(server, qp);
//       .type = weft::QpType::xrc_target,         uint32_t srq = number_in(c.peer_data);
//       .xrc_domain = xrc});                      qp.post_send({.opcode = weft::Opcode::send,
//   srq.post_recv(...);                                         .sges = {&sge, 1},
//   listener.accept(qp, {.private_data =                        .remote_srq = srq});
//                            bytes_of(srq.number())});
//
// The guarantees are those of RC: retransmission, RNR NAK when the queue is empty, order per
// connection. An initiator has no receive queue, a target no send queue (and needs no completion
// queues). A request that names an unknown number, or one of another domain, ends the connection:
// it completes with remote_invalid_request (vendor_error 0x64), and the target's device raises
// qp_access_error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "weft/cq.hpp"
#include "weft/result.hpp"
#include "weft/wr.hpp"

namespace weft {

namespace verbs {
class Srq;
class Xrc;
}  // namespace verbs

// An XRC domain: peers of its XRC targets may name the shared receive queues of the same domain. It
// belongs to one open device of one process. Created by Device::xrc_domain().
class XrcDomain {
 public:
  XrcDomain() = default;
  explicit operator bool() const noexcept { return xrc_ != nullptr; }
  // For providers.
  const std::shared_ptr<verbs::Xrc>& impl() const noexcept { return xrc_; }

 private:
  friend class Device;
  std::shared_ptr<verbs::Xrc> xrc_;
};

// Attributes of a shared receive queue at creation.
struct SharedReceiveQueueOptions {
  uint32_t max_recv_wr = 128;  // receives posted and not completed
  uint32_t max_recv_sge = 4;   // scatter/gather entries of a receive
  // The engine of the device, the same as that of its queue pairs (cq.hpp).
  uint32_t engine = 0;
  // XRC: both set or both empty. `cq` gets the completions of its receives, in which Completion::qp
  // is the XRC target.
  XrcDomain xrc_domain{};
  CompletionQueue cq{};
};

// What SharedReceiveQueue::query() returns (verbs: ibv_srq_attr).
struct SharedReceiveQueueAttributes {
  uint32_t max_recv_wr = 0;   // receives posted and not completed, as granted
  uint32_t max_recv_sge = 0;  // scatter/gather entries of a receive, as granted
  uint32_t limit = 0;         // of arm_limit(); 0: not armed, or the event was raised
};

// A handle of a shared receive queue. Copies name the same queue, which is destroyed with the last
// copy and the last queue pair that uses it. Any thread.
class SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;
  explicit operator bool() const noexcept { return srq_ != nullptr; }

  // Its number, 24 bits, as in AsyncEvent::shared_queue. Peers of an XRC domain name it in
  // SendRequest::remote_srq. The number becomes unused when the last copy is destroyed.
  uint32_t number() const noexcept;

  // Posts receives in order and stops at the first invalid one. Errors: queue_full,
  // invalid_argument.
  PostStatus post_recv(std::span<const RecvRequest> requests) const noexcept;
  // Posts one receive.
  PostStatus post_recv(const RecvRequest& request) const noexcept {
    return post_recv({&request, 1});
  }

  // Arms the limit: one event srq_limit_reached is raised when fewer than `limit` receives are
  // posted. Call again for the next event; 0 disarms. Error: invalid_argument (more than
  // max_recv_wr). See verbs: ibv_modify_srq.
  Result<void> arm_limit(uint32_t limit) const;

  // The sizes that the queue has, which may be more than those asked for, and its limit. See verbs:
  // ibv_query_srq. Error: io_error (ibverbs).
  Result<SharedReceiveQueueAttributes> query() const;
  // Changes max_recv_wr and keeps the receives in the queue. Errors: invalid_argument (0, more than
  // max_srq_wr, less than the armed limit), busy (it holds more receives than that), not_supported
  // (DeviceAttributes::resizes_srq is false), no_memory. After an error the queue is unchanged. See
  // verbs: ibv_modify_srq with IBV_SRQ_MAX_WR.
  Result<void> resize(uint32_t max_recv_wr) const;

  // For providers.
  const std::shared_ptr<verbs::Srq>& impl() const noexcept { return srq_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Srq> srq_;
};

}  // namespace weft
