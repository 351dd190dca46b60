// SPDX-License-Identifier: BSD-3-Clause
// Work requests and completions: what is posted, and what comes back for it. Each posted request
// completes exactly once: with success (if it is signaled), or with the error that says why not.
#pragma once

#include <cstdint>
#include <span>

#include "weft/types.hpp"

namespace weft {

// One piece of registered local memory. Length 0 is legal and means nothing.
struct Sge {
  void* address = nullptr;
  uint32_t length = 0;
  LKey lkey;
};

enum class Opcode : uint8_t {
  send,
  send_with_imm,
  send_with_invalidate,
  write,
  write_with_imm,
  read,
  compare_swap,
  fetch_add,
};

enum class SendFlags : uint32_t {
  none = 0,
  signaled = 1,     // a successful request makes a completion too
  fence = 2,        // starts only after all earlier READs and atomics have finished (C-OPS-80)
  solicited = 4,    // wakes a peer that armed its queue for solicited completions only (C-OPS-90)
  inline_data = 8,  // the data is copied at post: the buffers need no lkey and are free at return
};
template <>
struct is_flag_set<SendFlags> {
  static constexpr bool value = true;
};

// A request for the send queue. `sges` need only live during the call to post_send; the memory they
// name must stay valid and unchanged until the completion, unless inline_data is set.
struct SendRequest {
  uint64_t id = 0;
  Opcode opcode = Opcode::send;
  SendFlags flags = SendFlags::signaled;
  uint32_t imm = 0;             // *_with_imm: host byte order here, big endian on the wire
  RKey invalidate;              // send_with_invalidate: the peer's key to revoke
  std::span<const Sge> sges;    // source; for READ and atomics the destination (atomics: 8 bytes)
  uint64_t remote_address = 0;  // WRITE, READ, atomics (atomics: a multiple of 8)
  RKey rkey;                    // WRITE, READ, atomics
  uint64_t compare_add = 0;     // compare_swap: expected value; fetch_add: what is added
  uint64_t swap = 0;            // compare_swap: new value
};

// A buffer for one incoming SEND, or the notification of one WRITE_WITH_IMM.
struct RecvRequest {
  uint64_t id = 0;
  std::span<const Sge> sges;
};

// Completion status (IBTA 11.6.2), the same set as verbs.
enum class Status : uint8_t {
  success,
  local_length_error,
  local_qp_operation_error,
  local_protection_error,
  flushed,
  mw_bind_error,
  bad_response,
  local_access_error,
  remote_invalid_request,
  remote_access_error,
  remote_operation_error,
  retry_exceeded,
  rnr_retry_exceeded,
  remote_aborted,
  fatal,
};
std::string_view name(Status status) noexcept;

enum class WorkType : uint8_t {
  send,
  write,
  read,
  compare_swap,
  fetch_add,
  recv,
  recv_with_imm,  // a SEND or a WRITE with immediate data arrived; see CompletionFlags
};

enum class CompletionFlags : uint32_t {
  none = 0,
  with_imm = 1,         // `imm_or_key` holds immediate data
  with_invalidate = 2,  // `imm_or_key` holds the local rkey that the peer revoked
  rdma_write = 4,       // a WRITE_WITH_IMM: the data is where the peer put it
  grh = 8,              // UD: the first 40 bytes of the buffer hold the network header
};
template <>
struct is_flag_set<CompletionFlags> {
  static constexpr bool value = true;
};

struct Completion {
  uint64_t id = 0;          // the request's id
  uint32_t byte_count = 0;  // bytes received or read
  uint32_t imm_or_key = 0;  // host byte order
  QpNum qp;                 // the local queue pair
  QpNum source_qp;          // UD: the sender
  Status status = Status::success;
  WorkType type = WorkType::send;
  uint16_t vendor_error = 0;  // the NAK syndrome, or 0
  CompletionFlags flags = CompletionFlags::none;
};

}  // namespace weft
