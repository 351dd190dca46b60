// SPDX-License-Identifier: BSD-3-Clause
// The usual cause of each status and event, and what to do: one text for the log, weft_stat and the
// programs.
#include "lib/base/log/reasons.hpp"

#include "weft/log.hpp"

namespace weft {

std::string_view reason(Status status) noexcept {
  switch (status) {
    case Status::success:
      return "it was executed";
    case Status::local_length_error:
      return "a message is longer than the receive or the device's max_message: post larger "
             "receives, send less";
    case Status::local_qp_operation_error:
      return "the request does not fit the queue pair: compare its opcode, size and flags with the "
             "queue pair's type and limits";
    case Status::local_protection_error:
      return "an lkey is of no region of this protection domain, or the range leaves the region or "
             "memory that was unmapped: check the entries of the request";
    case Status::flushed:
      return "the queue pair was in ERR: the first completion with another status says why";
    case Status::mw_bind_error:
      return "the binding or invalidation is not permitted: check domain, range and rights of "
             "region and window";
    case Status::bad_response:
      return "the peer answered what was not asked: is it another kind of device, or an older "
             "version of weft?";
    case Status::local_access_error:
      return "the peer wrote where this side may not be written: check the rights of the region";
    case Status::remote_invalid_request:
      return "the peer refused the operation: its queue pair lacks the right "
             "(QueuePairAttributes::access), its receive is too small, or more READs and atomics "
             "are outstanding than its max_rd_atomic";
    case Status::remote_access_error:
      return "the peer refused the memory: the rkey is of no region there any more, the range "
             "leaves the region, or the region lacks the right (Access::remote_write and the like)";
    case Status::remote_operation_error:
      return "the peer could not finish the operation: look at its log and its completions";
    case Status::retry_exceeded:
      return "the peer did not acknowledge any retransmission: is its process running, does its "
             "firewall pass UDP port 4791, is the path MTU right? Counters of both sides: "
             "weft_stat";
    case Status::rnr_retry_exceeded:
      return "the peer had no receive posted each time: post receives before the peer sends, or "
             "rnr_retry = 7 on the sender";
    case Status::remote_aborted:
      return "the peer restarted, or dropped the state of this stream: the request may or may not "
             "have been executed; connect again";
    case Status::fatal:
      return "the device failed: close it and open it again";
  }
  return "not a status of this version";
}

std::string_view base::reason(EventType type) noexcept {
  switch (type) {
    case EventType::qp_fatal:
      return "the queue pair is in ERR: the first completion that is not flushed says why";
    case EventType::qp_request_error:
      return "the peer sent what this queue pair does not take, and is told so: compare types, "
             "sizes "
             "of receives, max_rd_atomic and QueuePairAttributes::access";
    case EventType::qp_access_error:
      return "the peer named memory that it may not use here, and is told so: its rkey is of no "
             "region of this protection domain any more, the range leaves the region, or the "
             "region "
             "lacks the right (Access::remote_write and the like)";
    case EventType::comm_established:
      return "the peer's first packet came: move to RTS";
    case EventType::sq_drained:
      return "what was posted before SQD has completed";
    case EventType::last_wqe_reached:
      return "the queue pair takes no more from its shared receive queue";
    case EventType::srq_limit_reached:
      return "the shared receive queue runs short: post receives, and arm_limit() again";
    case EventType::cq_error:
      return "completions are lost: poll more often, or give the completion queue a larger "
             "capacity";
    case EventType::port_active:
      return "the interface works again";
    case EventType::port_error:
      return "the interface is down: packets are lost until it is up, and requests fail when their "
             "retries are used up";
    case EventType::device_fatal:
      return "the device failed: close it and open it again";
    case EventType::gid_change:
      return "an address was removed from the interface, or came back: peers reach only one that "
             "is "
             "there";
  }
  return "not an event of this version";
}

}  // namespace weft
