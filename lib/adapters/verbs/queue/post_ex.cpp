// SPDX-License-Identifier: BSD-3-Clause
// Extended posting: ibv_wr_start() to ibv_wr_complete() collect requests, of which
// ibv_wr_complete() posts all or none. Other threads that call ibv_wr_start() meanwhile wait.
#include "lib/adapters/verbs/queue/post_ex.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "lib/adapters/verbs/queue/post.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"
#include "weft/post_all.hpp"

namespace weft::drop_in {
namespace {

constexpr size_t kChunk = 16;
constexpr const char* kComplete = "ibv_wr_complete";

// What kChunk requests point to, at a fixed place.
struct Chunk {
  std::array<WindowBind, kChunk> binds;
  std::array<ibv_mw*, kChunk> windows;   // whose ibv_mw::rkey changes when the request is posted
  std::unique_ptr<Sge[]> sges;           // max_send_sge for each request
  std::unique_ptr<std::byte[]> inlined;  // max_inline_data for each request
};

}  // namespace

struct PendingPosts {
  std::atomic_flag started = ATOMIC_FLAG_INIT;
  uint32_t max_sge = 1;
  uint32_t max_inline = 0;
  std::vector<SendRequest> requests;           // since wr_start
  std::vector<std::unique_ptr<Chunk>> chunks;  // at least as many as they need
  int error = 0;                               // the first one since wr_start
  const char* reason = "";

  size_t last_number() const noexcept { return requests.size() - 1; }
  Chunk& last() noexcept { return *chunks[last_number() / kChunk]; }
  size_t last_index() const noexcept { return last_number() % kChunk; }
  // Whether there is a request for a setter; else the first error stays or becomes that.
  bool has_request() noexcept {
    if (requests.empty()) fail(EINVAL, "a setter came before the function that begins a request");
    return error == 0;
  }
  void fail(int with, const char* why) noexcept {
    if (error != 0) return;
    error = with;
    reason = why;
  }
  // A request more; null after an error.
  SendRequest* add(uint64_t id, Opcode opcode, SendFlags flags) noexcept;
};

SendRequest* PendingPosts::add(uint64_t id, Opcode opcode, SendFlags flags) noexcept {
  if (error != 0) return nullptr;
  try {
    if (requests.size() == chunks.size() * kChunk) {
      auto chunk = std::make_unique<Chunk>();
      chunk->sges = std::make_unique<Sge[]>(kChunk * max_sge);
      chunk->inlined = std::make_unique<std::byte[]>(kChunk * max_inline);
      chunks.push_back(std::move(chunk));
    }
    requests.push_back({.id = id, .opcode = opcode, .flags = flags});
    return &requests.back();
  } catch (const std::bad_alloc&) {
    fail(ENOMEM, "out of memory");
    return nullptr;
  }
}

namespace {

PendingPosts& pending_of(ibv_qp_ex* qp) noexcept { return *of(qp).pending; }

// Begins a request. The functions below return null after an error, which wr_complete returns.
SendRequest* begin(ibv_qp_ex* qp, Opcode opcode) noexcept {
  PendingPosts& pending = pending_of(qp);
  if ((qp->wr_flags & ~kKnownSendFlags) != 0) [[unlikely]]
    pending.fail(EINVAL, kUnknownSendFlags);
  return pending.add(qp->wr_id, opcode, send_flags_of(qp->wr_flags));
}

SendRequest* begin_remote(ibv_qp_ex* qp, Opcode opcode, uint32_t rkey, uint64_t address) noexcept {
  SendRequest* request = begin(qp, opcode);
  if (request == nullptr) return nullptr;
  request->rkey = RKey{rkey};
  request->remote_address = address;
  return request;
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t compare,
                       uint64_t swap) noexcept {
  SendRequest* request = begin_remote(qp, Opcode::compare_swap, rkey, address);
  if (request == nullptr) return;
  request->compare_add = compare;
  request->swap = swap;
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t add) noexcept {
  SendRequest* request = begin_remote(qp, Opcode::fetch_add, rkey, address);
  if (request != nullptr) request->compare_add = add;
}

void wr_atomic_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, const void* value) noexcept {
  SendRequest* request = begin_remote(qp, Opcode::atomic_write, rkey, address);
  if (request != nullptr) std::memcpy(&request->swap, value, sizeof request->swap);
}

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) noexcept {
  PendingPosts& pending = pending_of(qp);
  if (mw->type != IBV_MW_TYPE_2) return pending.fail(EINVAL, "the window is not of type 2");
  SendRequest* request = begin_remote(qp, Opcode::bind_window, rkey, 0);
  if (request == nullptr) return;
  WindowBind& bind = pending.last().binds[pending.last_index()];
  bind = window_bind_of(mw, *info);
  pending.last().windows[pending.last_index()] = mw;
  request->bind = &bind;
}

void wr_local_inv(ibv_qp_ex* qp, uint32_t key) noexcept {
  if (SendRequest* request = begin(qp, Opcode::local_invalidate)) request->invalidate = RKey{key};
}

void wr_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) noexcept {
  begin_remote(qp, Opcode::read, rkey, address);
}

void wr_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) noexcept {
  begin_remote(qp, Opcode::write, rkey, address);
}

void wr_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 imm) noexcept {
  SendRequest* request = begin_remote(qp, Opcode::write_with_imm, rkey, address);
  if (request != nullptr) request->imm = __builtin_bswap32(imm);
}

void wr_send(ibv_qp_ex* qp) noexcept { begin(qp, Opcode::send); }

void wr_send_imm(ibv_qp_ex* qp, __be32 imm) noexcept {
  if (SendRequest* request = begin(qp, Opcode::send_with_imm))
    request->imm = __builtin_bswap32(imm);
}

void wr_send_inv(ibv_qp_ex* qp, uint32_t key) noexcept {
  if (SendRequest* request = begin(qp, Opcode::send_with_invalidate))
    request->invalidate = RKey{key};
}

void wr_send_tso(ibv_qp_ex* qp, void*, uint16_t, uint16_t) noexcept {
  pending_of(qp).fail(EOPNOTSUPP, "there is no TSO");
}

void wr_flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, size_t length, uint8_t type,
              uint8_t level) noexcept {
  SendRequest* request = begin_remote(qp, Opcode::flush, rkey, address);
  if (request == nullptr) return;
  constexpr uint8_t kGlobal = 1, kPersistent = 2;  // IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT
  constexpr uint8_t kRange = 0;                    // IBV_FLUSH_RANGE; 1: the whole region
  request->flush = {.visible = (type & kGlobal) != 0,
                    .persistent = (type & kPersistent) != 0,
                    .whole_region = level != kRange,
                    .length = static_cast<uint32_t>(length)};
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey) noexcept {
  PendingPosts& pending = pending_of(qp);
  if (!pending.has_request()) return;
  if (ah == nullptr) return pending.fail(EINVAL, "ah is null");
  SendRequest& request = pending.requests.back();
  request.to = &of(ah).handle;
  request.remote_qpn = QpNum{qpn};
  request.remote_qkey = qkey;
}

void wr_set_xrc_srqn(ibv_qp_ex* qp, uint32_t number) noexcept {
  PendingPosts& pending = pending_of(qp);
  if (pending.has_request()) pending.requests.back().remote_srq = number;
}

// Room for the entries of the request; null after an error.
Sge* sges_for(PendingPosts& pending, size_t count) noexcept {
  if (!pending.has_request()) return nullptr;
  if (count > pending.max_sge) {
    pending.fail(EINVAL, "more entries than max_send_sge");
    return nullptr;
  }
  Sge* list = &pending.last().sges[pending.last_index() * pending.max_sge];
  pending.requests.back().sges = {list, count};
  return list;
}

void wr_set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) noexcept {
  if (Sge* list = sges_for(pending_of(qp), 1))
    *list = {.address = reinterpret_cast<void*>(address), .length = length, .lkey = LKey{lkey}};
}

void wr_set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* from) noexcept {
  Sge* list = sges_for(pending_of(qp), count);
  if (list == nullptr) return;
  const auto entries = sges_of(from, static_cast<int>(count));
  std::copy(entries.begin(), entries.end(), list);
}

void set_inline(PendingPosts& pending, size_t count, const ibv_data_buf* buffers) noexcept {
  Sge* list = sges_for(pending, 1);
  if (list == nullptr) return;
  std::byte* begin = &pending.last().inlined[pending.last_index() * pending.max_inline];
  size_t filled = 0;
  for (size_t i = 0; i < count; ++i) {
    if (filled + buffers[i].length > pending.max_inline)
      return pending.fail(EINVAL, "more inline data than max_inline_data");
    std::memcpy(begin + filled, buffers[i].addr, buffers[i].length);
    filled += buffers[i].length;
  }
  *list = {.address = begin, .length = static_cast<uint32_t>(filled)};
  SendFlags& flags = pending.requests.back().flags;
  flags = flags | SendFlags::inline_data;
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, size_t length) noexcept {
  const ibv_data_buf buffer{.addr = address, .length = length};
  set_inline(pending_of(qp), 1, &buffer);
}

void wr_set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* buffers) noexcept {
  set_inline(pending_of(qp), count, buffers);
}

void wr_start(ibv_qp_ex* qp) noexcept {
  PendingPosts& pending = pending_of(qp);
  while (pending.started.test_and_set(std::memory_order_acquire)) ::sched_yield();
  pending.requests.clear();
  pending.error = 0;
}

void wr_abort(ibv_qp_ex* qp) noexcept { pending_of(qp).started.clear(std::memory_order_release); }

// Windows of type 2 show the key of the binding that was posted last.
void note_window_keys(const PendingPosts& pending, size_t count) noexcept {
  for (size_t i = 0; i < count; ++i)
    if (pending.requests[i].opcode == Opcode::bind_window)
      pending.chunks[i / kChunk]->windows[i % kChunk]->rkey = pending.requests[i].rkey.value;
}

// One request is posted or not; of several, the provider `ibverbs` posts those before a wrong one.
PostStatus post(const QueuePair& pair, std::span<const SendRequest> requests) noexcept {
  if (requests.size() == 1) return pair.post_send(requests);
  const PostStatus status = post_send_all(pair, requests);
  return status.code == Code::not_supported ? pair.post_send(requests) : status;
}

int post_all(const Qp& qp, const PendingPosts& pending) noexcept {
  if (pending.error != 0) return refuse(pending.error, kComplete, "%s", pending.reason);
  if (pending.requests.empty()) return 0;
  WEFT_DCHECK(pending.requests.size() <= pending.chunks.size() * kChunk);
  const PostStatus status = post(qp.pair, pending.requests);
  note_window_keys(pending, status.accepted);
  if (status) return 0;
  const Code code = status.code == Code::bad_state ? Code::invalid_argument : status.code;
  return refuse(errno_of(code), kComplete, "%zu requests: %s", pending.requests.size(),
                status.reason);
}

int wr_complete(ibv_qp_ex* qp) noexcept {
  PendingPosts& pending = pending_of(qp);
  const int error = post_all(of(qp), pending);
  pending.started.clear(std::memory_order_release);
  return error;
}

constexpr uint64_t kFlush = 1 << 11;  // IBV_QP_EX_WITH_FLUSH of newer headers

uint64_t operations_of(const Qp& qp) noexcept {
  const DeviceAttributes& device = qp.context->device.attributes();
  constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                               IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
                               IBV_QP_EX_WITH_SEND_WITH_INV;
  constexpr uint64_t kReads = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                              IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  const uint64_t placed = device.has_flush ? IBV_QP_EX_WITH_ATOMIC_WRITE | kFlush : 0;
  switch (qp.init.qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
      return kSends | kWrites | kReads | placed;
    case IBV_QPT_UC:
      return kSends | kWrites;
    case IBV_QPT_UD:
      return kSends;
    case IBV_QPT_DRIVER: {
      uint64_t operations = kSends;
      if (device.has_read) operations |= IBV_QP_EX_WITH_RDMA_READ;
      if (device.has_write)
        operations |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
      if (device.has_atomics)
        operations |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
      return operations;
    }
    default:
      return 0;
  }
}

}  // namespace

int set_extended_post(Qp& qp, uint64_t send_ops) {
  if ((send_ops & ~operations_of(qp)) != 0) return EOPNOTSUPP;
  qp.pending = new PendingPosts;
  qp.pending->max_sge = std::max(qp.init.cap.max_send_sge, 1U);
  qp.pending->max_inline = qp.init.cap.max_inline_data;
  ibv_qp_ex& to = qp.qp;
  to.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  to.wr_atomic_fetch_add = wr_atomic_fetch_add;
  to.wr_atomic_write = wr_atomic_write;
  to.wr_bind_mw = wr_bind_mw;
  to.wr_local_inv = wr_local_inv;
  to.wr_rdma_read = wr_rdma_read;
  to.wr_rdma_write = wr_rdma_write;
  to.wr_rdma_write_imm = wr_rdma_write_imm;
  to.wr_send = wr_send;
  to.wr_send_imm = wr_send_imm;
  to.wr_send_inv = wr_send_inv;
  to.wr_send_tso = wr_send_tso;
  to.wr_set_ud_addr = wr_set_ud_addr;
  to.wr_set_xrc_srqn = wr_set_xrc_srqn;
  to.wr_set_inline_data = wr_set_inline_data;
  to.wr_set_inline_data_list = wr_set_inline_data_list;
  to.wr_set_sge = wr_set_sge;
  to.wr_set_sge_list = wr_set_sge_list;
  to.wr_start = wr_start;
  to.wr_complete = wr_complete;
  to.wr_abort = wr_abort;
  // Newer headers have it in ibv_qp_ex; with older ones it is the next member of Qp.
  constexpr size_t kAt = offsetof(ibv_qp_ex, wr_atomic_write) + sizeof(void*);
  static_assert(kAt < sizeof(ibv_qp_ex) || kAt == offsetof(Qp, wr_flush));
  auto* const function = wr_flush;
  std::memcpy(reinterpret_cast<char*>(&qp) + kAt, &function, sizeof function);
  return 0;
}

void free_extended_post(Qp& qp) noexcept { delete qp.pending; }

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  WEFT_FORWARD(qp->context, ibv_qp_to_qp_ex, qp);
  return of(qp).pending == nullptr ? nullptr : &of(qp).qp;
}
