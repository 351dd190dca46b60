// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues: receives for the messages of many queue pairs, of any service, so that a
// server needs buffers for the messages that come and not for all that could. A message takes the
// oldest receive when it begins and completes in the receive queue of its own queue pair; between
// the messages of two queue pairs there is no order.
//
// XRC (extended reliable connection, IBTA, annex XRC): one connection reaches many such queues. The
// sending end is a queue pair of type xrc_initiator, the receiving end one of type xrc_target,
// which belongs to an XRC domain. A shared receive queue that was made in the same domain has a
// number, and each request names the one that it is for: a SEND or WRITE_WITH_IMM takes its receive
// there and completes in that queue's `cq`; a WRITE, READ or atomic touches memory of that queue's
// protection domain. So a process needs one connection to a host, not one to each of its queues:
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
// All that RC promises holds: retries, RNR where the queue is empty, order per connection. An
// initiator has no receive queue, a target no send queue (and needs no completion queues). A number
// that is none, or of another domain, ends the connection: the request completes with
// remote_invalid_request (vendor_error 0x64), and the target's device tells qp_access_error.
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

// Ties XRC targets to the shared receive queues that their peers may name. Of one open device of
// one process. Made by Device::xrc_domain().
class XrcDomain {
 public:
  XrcDomain() = default;
  explicit operator bool() const noexcept { return xrc_ != nullptr; }
  const std::shared_ptr<verbs::Xrc>& impl() const noexcept { return xrc_; }

 private:
  friend class Device;
  std::shared_ptr<verbs::Xrc> xrc_;
};

struct SharedReceiveQueueOptions {
  uint32_t max_recv_wr = 128;  // receives waiting
  uint32_t max_recv_sge = 4;
  // Which engine of a device with several it is on, as its queue pairs are (cq.hpp).
  uint32_t engine = 0;
  // XRC: both or neither. `cq` gets the completions of its receives; Completion::qp is the target.
  XrcDomain xrc_domain{};
  CompletionQueue cq{};
};

class SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;
  explicit operator bool() const noexcept { return srq_ != nullptr; }

  // Names it in AsyncEvent::shared_queue. Of one in an XRC domain: what peers name it by in
  // SendRequest::remote_srq; 24 bits. When its last copy is gone, the number is nobody's.
  uint32_t number() const noexcept;

  // Legal at any time. Errors: queue_full, invalid_argument.
  PostStatus post_recv(std::span<const RecvRequest> requests) const noexcept;
  PostStatus post_recv(const RecvRequest& request) const noexcept {
    return post_recv({&request, 1});
  }

  // Asks for one event srq_limit_reached when fewer than `limit` receives wait; ask again for the
  // next. 0: never mind. Error: invalid_argument (more than max_recv_wr).
  Result<void> arm_limit(uint32_t limit) const;

  const std::shared_ptr<verbs::Srq>& impl() const noexcept { return srq_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Srq> srq_;
};

}  // namespace weft
