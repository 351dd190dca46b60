// SPDX-License-Identifier: BSD-3-Clause
// The usual cause of each status and what to do: one text for the log, weft_stat and the programs.
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

}  // namespace weft
