// SPDX-License-Identifier: BSD-3-Clause
// Work requests and completions: what is posted, and what comes back for it. Each posted request
// completes exactly once: with success (if it is signaled), or with the error that says why not.
//
// SRD queue pairs (QpType::srd) have no peer: each request names its own. What they promise:
// - Each request is executed once or not at all. A completion with success means executed: the
//   bytes of a SEND or WRITE are in the memory of the peer, an atomic or WRITE_ADD has happened,
//   the bytes of a READ are here.
// - Nothing about order. Packets take many paths and are placed where they belong as they arrive:
//   of two requests, and of the bytes of one, either may be seen first. Who needs order waits for
//   the completion of the first before posting the second. A receive completes when all bytes of
//   its message are in place; a WRITE_WITH_IMM's when all of its bytes are.
// - SENDs with SendFlags::ordered, from one device to another, are received in the order in which
//   they were posted, whatever queue pairs they use: their receives complete in that order. Bytes
//   are placed as they come, so which of the posted receives a message takes is not promised, only
//   that none is left without because of a later one. At most 64 of them are on the way to a peer;
//   more wait at the sender. One that fails is left out, the others go on.
// - A completion with success means placed: the bytes of a SEND or WRITE can be seen in the peer's
//   memory. It does not mean that the peer's program has been told; an ordered SEND's receive may
//   still wait for those before it. A WRITE followed by a SEND says nothing about the WRITE, until
//   the WRITE has completed; WRITE_WITH_IMM tells both at once.
// - A SEND takes the receive that is first in line when its first packet arrives. If there is none,
//   that message alone waits, and its device stands in line at the peer's queue pair: each receive
//   posted there goes to the first device in line. rnr_retry counts the times that it is refused
//   (7 = for ever); uncalled it asks again after half a second or so.
// - An error belongs to its request; the queue pair goes on. After an error of a WRITE or SEND part
//   of its bytes may have been placed. remote_aborted: the peer has restarted or forgotten us in
//   the middle, so it is not known whether the request was executed. retry_exceeded: no answer at
//   all for the device's `patience`; vendor_error is 1 if there had been one before, 0 if not.
// - WRITE_ADD adds elements of 4 or 8 bytes; it needs Access::remote_atomic. Adds of one device at
//   the peer lose no update; fp32 is added as it arrives, or (`ordered`) as it was posted, per
//   peer.
//
// UD queue pairs (QpType::ud) have no peer either; each request is one SEND of at most
// DeviceAttributes::active_mtu bytes. UC queue pairs have one; they SEND and WRITE messages of any
// length. Both promise little: a request succeeds when it has left, a message may be lost without a
// word, and one of UC whose packets do not all come in order is dropped. What arrives is whole. One
// of a single packet may come late, or twice, as the network may deliver its packet. The bytes of a
// dropped WRITE, and of a dropped SEND in the buffer it was meant for, may have been placed. A
// request that cannot be sent (a wrong lkey) puts the queue pair into SQE: it still receives, later
// requests are flushed, and modify() to RTS lets it go on.
#pragma once

#include <cstdint>
#include <span>

#include "weft/ah.hpp"
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
  write_add,         // SRD: adds the elements of the source to remote memory, each exactly once
  atomic_write,      // RC of roce: 8 bytes are replaced at once, exactly once; `swap` as it lies in
                     // memory here lies there then. A completion means done (IBTA 1.5, A19.4)
  flush,             // RC of roce: see Flush
  bind_window,       // RC, UC: see WindowBind
  local_invalidate,  // RC, UC: revokes `invalidate`, a key of ours: a type 2 window, or for good
                     // the remote rights of a region; mw_bind_error if it is not ours to revoke
};

constexpr bool is_local(Opcode opcode) noexcept { return opcode >= Opcode::bind_window; }

// What a memory window shows from now on (IBTA 10.6.7.2, //= roce:C-OPS-88): a part of a region
// that was registered with Access::window_bind. Requests after it in the send queue find it done.
// When it fails (another domain, outside the region, a right that the region lacks, a type 2 window
// that is bound already or has this key already, or size 0 for one) it completes with
// mw_bind_error, and the queue pair goes to ERR (UC: SQE); `ibverbs` refuses some of it at post.
// Window and region must stay until it has completed; one that is flushed may have been done.
// Responses to a READ that are on their way when a binding ends still arrive.
struct WindowBind {
  const class MemoryWindow* window = nullptr;
  const class MemoryRegion* region = nullptr;  // not needed with size 0, but on `ibverbs`
  void* address = nullptr;
  size_t size = 0;               // 0: it shows nothing any more (type 1)
  Access access = Access::none;  // remote_write, remote_read, remote_atomic; type 2: zero_based
};

// What a FLUSH brings about (IBTA 1.5, A19.5) for what earlier requests of this queue pair wrote;
// its completion means that it is so. It counts, as ATOMIC WRITE does, as one of max_rd_atomic.
// - visible: every program of the peer sees it. Needs Access::flush_global on region and queue
// pair.
// - persistent: it survives the end of the peer's machine, as far as its file system keeps that
//   promise after msync(). Needs Access::flush_persistent on both. The peer's device serves nobody
//   while its disk is busy with it: what takes longer than timeout and retry_count allow ends in
//   retry_exceeded, for others too. Flush little and often.
struct Flush {
  bool visible = true;
  bool persistent = false;
  bool whole_region = false;  // all of the region that `rkey` names, whatever address and length
  uint32_t length = 0;        // bytes from remote_address on
};

// What a WRITE_ADD adds. Integers wrap.
enum class Element : uint8_t { int32, int64, fp32 };

enum class SendFlags : uint32_t {
  none = 0,
  signaled = 1,  // a successful request makes a completion too
  fence = 2,  // starts only after all earlier READs, atomics and FLUSHes have finished (C-OPS-80)
  solicited = 4,    // wakes a peer that armed its queue for solicited completions only (C-OPS-90)
  ordered = 16,     // SRD: a SEND received, or a WRITE_ADD done, after those before (above)
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
  RKey invalidate;              // send_with_invalidate: the peer's key to revoke; local: ours
  std::span<const Sge> sges;    // source; for READ and atomics the destination (atomics: 8 bytes)
  uint64_t remote_address = 0;  // WRITE, READ, FLUSH, atomics (these: a multiple of 8)
  RKey rkey;                    // WRITE, READ, FLUSH, atomics; bind_window of type 2: its new key
  uint64_t compare_add = 0;     // compare_swap: expected value; fetch_add: what is added
  uint64_t swap = 0;            // compare_swap, atomic_write: new value
  // UD, SRD: where the request goes. Without `to` an SRD request goes where modify() has said
  // (path, dest_qpn). The handle need only live during the call.
  const AddressHandle* to = nullptr;
  QpNum remote_qpn;
  Element element = Element::int32;  // write_add
  uint32_t imm_high = 0;             // SRD: upper half of 64 bits of immediate data; elsewhere 0
  // UD: the key of the receiving queue pair. With the high bit set: our own queue pair's key.
  uint32_t remote_qkey = 0;
  const WindowBind* bind = nullptr;  // bind_window; need only live during the call
  Flush flush;
  uint32_t remote_srq = 0;  // XRC: SharedReceiveQueue::number() of the peer's, for every request
};

// A buffer for one incoming SEND, or the notification of one WRITE_WITH_IMM. UD: the first
// kNetworkHeaderLength bytes are for the network header (sender_of), the payload follows.
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
  write_add,
  atomic_write,
  flush,
  bind_window,
  local_invalidate,
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
  uint32_t byte_count = 0;  // of the message, on both sides
  uint32_t imm_or_key = 0;  // host byte order
  QpNum qp;                 // the local queue pair; XRC: the target that received it
  QpNum source_qp;          // UD, SRD: the sender
  Status status = Status::success;
  WorkType type = WorkType::send;
  uint16_t vendor_error = 0;  // the NAK syndrome, or 0; SRD: a reason of lib/wire/SRD.md
  CompletionFlags flags = CompletionFlags::none;
  uint32_t imm_high = 0;     // SRD: upper half of the immediate data
  uint32_t source_peer = 0;  // SRD: Device::peer_address() says whose address
};

}  // namespace weft
