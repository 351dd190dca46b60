// SPDX-License-Identifier: BSD-3-Clause
// Work requests and completions. Each posted request completes exactly once: with success (a
// completion only if it is signaled), or with an error status.
//
// SRD queue pairs (QpType::srd) are connectionless: each request names its destination. Guarantees:
// - A request is executed once or not at all. Success means that it was executed and placed: the
//   bytes of a SEND or WRITE are visible in the peer's memory, an atomic or WRITE_ADD was done, the
//   bytes of a READ are in local memory. It does not mean that the peer's program has a completion:
//   the receive of an ordered SEND may still wait for earlier ones.
// - No order. Packets take several paths and are placed as they arrive: two requests, and the bytes
//   of one, may become visible in any order. To order two requests, wait for the completion of the
//   first before posting the second. A receive completes when all bytes of its message are placed;
//   so does that of a WRITE_WITH_IMM. A SEND that follows a WRITE says nothing about the WRITE
//   before the WRITE has completed.
// - SENDs with SendFlags::ordered from one device to another, on any queue pairs, complete at the
//   receiver in the order in which they were posted. Their bytes are placed as they arrive, so it
//   is undefined which of the posted receives a message takes, but a later message never takes the
//   last receive from an earlier one. At most 64 are in flight to a peer; more are queued at the
//   sender. One that fails is skipped.
// - A SEND takes the oldest receive when its first packet arrives. If there is none, only that
//   message waits, and the sending device is queued at the peer's queue pair: each receive posted
//   there is offered to the device at the head of that queue. rnr_retry counts refusals (7 =
//   without limit); without an offer the sender retries after about half a second.
// - An error belongs to its request; the queue pair stays in RTS. After an error of a WRITE or SEND
//   part of its bytes may have been placed. remote_aborted: the peer restarted or dropped our state
//   meanwhile, so the request may or may not have been executed. retry_exceeded: no packet from the
//   peer for the device's dead peer timeout (`patience_ms`), or a sign that it is gone, which is in
//   vendor_error (docs/failure-model.md); bit 0 of that: the peer had answered before.
// - WRITE_ADD adds elements of 4 or 8 bytes; it needs Access::remote_atomic. Concurrent adds at the
//   peer's device lose no update. fp32 is added in the order of arrival, or with `ordered` in the
//   order of posting, per peer.
//
// UD queue pairs (QpType::ud) are connectionless too; each request is one SEND of at most
// DeviceAttributes::active_mtu bytes. UC queue pairs are connected; they SEND and WRITE messages of
// any length. Both are unreliable: a request succeeds when it has been sent, messages may be lost
// without notice, and a UC message is dropped unless all its packets arrive in order. Messages
// arrive whole. One of a single packet may arrive late or twice. The bytes of a dropped WRITE or
// SEND may have been placed in its buffer. A request that cannot be sent (a wrong lkey) moves the
// queue pair to SQE: it still receives, later send requests are flushed, and modify() to RTS makes
// it send again.
#pragma once

#include <cstdint>
#include <span>

#include "weft/ah.hpp"
#include "weft/types.hpp"

namespace weft {

// A scatter/gather entry: a piece of registered local memory. Length 0 is legal and ignored.
struct Sge {
  void* address = nullptr;
  uint32_t length = 0;
  LKey lkey{};
};

// Operations of send requests (IBTA 11.4.1.1).
enum class Opcode : uint8_t {
  send,
  send_with_imm,
  send_with_invalidate,
  write,
  write_with_imm,
  read,
  compare_swap,
  fetch_add,
  write_add,         // SRD: adds the source elements to remote memory, each exactly once
  atomic_write,      // RC of roce: replaces 8 bytes atomically, exactly once, by `swap` as it lies
                     // in local memory. A completion means executed (IBTA 1.5, A19.4)
  flush,             // RC of roce: see Flush
  bind_window,       // RC, UC: see WindowBind
  local_invalidate,  // RC, UC: invalidates the local key `invalidate`: unbinds a type 2 window, or
                     // removes the remote rights of a region for good. mw_bind_error if the queue
                     // pair may not invalidate it
};

// Operations that send no packet.
constexpr bool is_local(Opcode opcode) noexcept { return opcode >= Opcode::bind_window; }

// The parameters of Opcode::bind_window (IBTA 10.6.7.2, //= roce:C-OPS-88): from now on the window
// gives access to `size` bytes at `address` of a region that was registered with
// Access::window_bind. Later requests of the send queue are executed after the binding. A binding
// that fails (different domains, outside the region, a right that the region lacks, a type 2 window
// that is bound or has this key already, or size 0 for a type 2 window) completes with
// mw_bind_error, and the queue pair goes to ERR (UC: SQE); `ibverbs` refuses some of these at post.
// Window and region must exist until the request has completed. A flushed binding may or may not
// have been done. Responses to a READ in flight when a binding ends still arrive.
struct WindowBind {
  const class MemoryWindow* window = nullptr;
  const class MemoryRegion* region = nullptr;  // may be null with size 0, except on `ibverbs`
  void* address = nullptr;
  size_t size = 0;               // bytes; 0 unbinds a type 1 window
  Access access = Access::none;  // remote_write, remote_read, remote_atomic; type 2: zero_based
};

// The parameters of Opcode::flush (IBTA 1.5, A19.5). It applies to data written by earlier requests
// of this queue pair; a completion means that the data has been flushed. Like an ATOMIC WRITE it
// counts against max_rd_atomic.
// - visible: all programs of the peer see the data. Needs Access::flush_global on region and queue
//   pair.
// - persistent: the data survives a failure of the peer's machine, as far as its file system
//   guarantees that after msync(). Needs Access::flush_persistent on both. The peer's device
//   processes no packets during msync(): if that takes longer than timeout and retry_count allow,
//   requests of other queue pairs end in retry_exceeded too. Flush small ranges often.
struct Flush {
  bool visible = true;
  bool persistent = false;
  bool whole_region = false;  // the whole region of `rkey`, regardless of address and length
  uint32_t length = 0;        // bytes from remote_address on
};

// The type of the elements of a WRITE_ADD. Integers wrap.
enum class Element : uint8_t { int32, int64, fp32 };

// Flags of a send request.
enum class SendFlags : uint32_t {
  none = 0,
  signaled = 1,  // success produces a completion too
  fence = 2,  // starts only after all earlier READs, atomics and FLUSHes have finished (C-OPS-80)
  solicited = 4,    // wakes a peer that armed its queue with Notify::solicited (C-OPS-90)
  ordered = 16,     // SRD: in order with earlier ordered SENDs or WRITE_ADDs to the peer (above)
  inline_data = 8,  // the data is copied at post: buffers need no lkey and may be reused at return
};
template <>
struct is_flag_set<SendFlags> {
  static constexpr bool value = true;
};

// A request for the send queue. `sges`, `to` and `bind` need to live only during post_send(); the
// memory that the entries name must stay valid and unchanged until the request completes, unless
// inline_data is set. An unsignaled request has completed when a later one of its queue pair has a
// completion; not on SRD, where no completion shows it: signal a request whose memory is reused.
struct SendRequest {
  uint64_t id = 0;  // returned in Completion::id
  Opcode opcode = Opcode::send;
  SendFlags flags = SendFlags::signaled;
  uint32_t imm = 0;             // *_with_imm: host byte order here, big endian on the wire
  RKey invalidate{};            // send_with_invalidate: the peer's key to revoke; local: ours
  std::span<const Sge> sges{};  // source; for READ and atomics the destination (atomics: 8 bytes)
  uint64_t remote_address = 0;  // WRITE, READ, FLUSH, atomics (for atomics a multiple of 8)
  RKey rkey{};                  // WRITE, READ, FLUSH, atomics; bind_window of type 2: its new key
  uint64_t compare_add = 0;     // compare_swap: expected value; fetch_add: addend
  uint64_t swap = 0;            // compare_swap, atomic_write: new value
  // UD, SRD: the destination. An SRD request without `to` goes to the default destination that
  // modify() has set (path, dest_qpn).
  const AddressHandle* to = nullptr;
  QpNum remote_qpn{};
  Element element = Element::int32;  // write_add
  uint32_t imm_high = 0;             // SRD: upper half of 64 bits of immediate data; elsewhere 0
  // UD, SRD: the Q_Key of the receiver. UD: with the high bit set that of our own queue pair.
  uint32_t remote_qkey = 0;
  const WindowBind* bind = nullptr;  // bind_window
  Flush flush{};                     // flush
  uint32_t remote_srq = 0;           // XRC, every request: SharedReceiveQueue::number() of the peer
};

// A receive: a buffer for one incoming SEND, or the notification of one WRITE_WITH_IMM. UD: the
// first kNetworkHeaderLength bytes receive the network header (sender_of), the payload follows.
// `sges` needs to live only during post_recv(); the buffers belong to the device until completion.
struct RecvRequest {
  uint64_t id = 0;  // returned in Completion::id
  std::span<const Sge> sges{};
};

// Completion status (IBTA 11.6.2), the same set as ibv_wc_status.
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
// The name as spelled above.
std::string_view name(Status status) noexcept;

// The operation that completed (verbs: ibv_wc_opcode).
enum class WorkType : uint8_t {
  send,
  write,
  read,
  compare_swap,
  fetch_add,
  write_add,
  atomic_write,
  flush,
  bind_window,
  local_invalidate,
  recv,
  recv_with_imm,  // a SEND or a WRITE with immediate data arrived; see CompletionFlags
};

// Which fields of a receive completion are valid.
enum class CompletionFlags : uint32_t {
  none = 0,
  with_imm = 1,         // `imm_or_key` holds immediate data
  with_invalidate = 2,  // `imm_or_key` holds the local rkey that the peer invalidated
  rdma_write = 4,       // a WRITE_WITH_IMM: the data is at the address that the peer chose
  grh = 8,              // UD: the first 40 bytes of the buffer hold the network header
};
template <>
struct is_flag_set<CompletionFlags> {
  static constexpr bool value = true;
};

// A completion (verbs: ibv_wc).
struct Completion {
  uint64_t id = 0;          // SendRequest::id or RecvRequest::id
  uint32_t byte_count = 0;  // of the message, on both sides
  uint32_t imm_or_key = 0;  // host byte order
  QpNum qp{};               // the local queue pair; XRC: the target that received the message
  QpNum source_qp{};        // UD, SRD: the sender
  Status status = Status::success;
  WorkType type = WorkType::send;
  uint16_t vendor_error = 0;  // the NAK syndrome, or 0; SRD: a reason of lib/wire/SRD.md
  CompletionFlags flags = CompletionFlags::none;
  uint32_t imm_high = 0;     // SRD: upper half of the immediate data
  uint32_t source_peer = 0;  // SRD: number of the sending peer, for Device::peer_address()
};

}  // namespace weft
