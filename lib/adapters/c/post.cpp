// SPDX-License-Identifier: BSD-3-Clause
// C API: requests are posted in portions, whose scatter/gather entries fit on the stack.
#include <memory>
#include <span>

#include "lib/adapters/c/call.hpp"

using weft::c::call;
using weft::c::failed;

static_assert(static_cast<int>(weft::Opcode::local_invalidate) == WEFT_OP_LOCAL_INVALIDATE);
static_assert(static_cast<int>(weft::Opcode::flush) == WEFT_OP_FLUSH);
static_assert(static_cast<int>(weft::SendFlags::ordered) == WEFT_SEND_ORDERED);
static_assert(static_cast<int>(weft::SendFlags::inline_data) == WEFT_SEND_INLINE);
static_assert(static_cast<int>(weft::Element::fp32) == WEFT_FP32);

namespace {

constexpr size_t kRequests = 16, kSges = 64;  // of a portion

// Room for objects, of which only those that are used are constructed: 4 KiB of defaults would take
// as long as a post.
template <class T, size_t N>
struct Slots {
  Slots() {}
  union {
    T at[N];
  };
};

// What a request of C becomes, and what it points to.
struct Portion {
  Slots<weft::SendRequest, kRequests> sends;
  Slots<weft::RecvRequest, kRequests> receives;
  Slots<weft::AddressHandle, kRequests> destinations;
  Slots<weft::Sge, kSges> sges;
  size_t requests = 0, used = 0;

  // Copies the entries; false: they do not fit in this portion any more.
  bool take(const weft_sge* from, uint32_t count, std::span<const weft::Sge>& to) {
    if (requests == kRequests || count > kSges - used) return false;
    for (uint32_t i = 0; i < count; ++i)
      std::construct_at(&sges.at[used + i], weft::Sge{.address = from[i].address,
                                                      .length = from[i].length,
                                                      .lkey = weft::LKey{from[i].lkey}});
    to = {sges.at + used, count};
    used += count;
    return true;
  }
};

constexpr uint32_t kFlags = WEFT_SEND_SIGNALED | WEFT_SEND_FENCE | WEFT_SEND_SOLICITED |
                            WEFT_SEND_INLINE | WEFT_SEND_ORDERED;

// Why no queue pair takes the request; nullptr: one may.
const char* fault_of(const weft_send_request& from) {
  const bool known = from.opcode >= WEFT_OP_SEND && from.opcode <= WEFT_OP_LOCAL_INVALIDATE &&
                     from.opcode != static_cast<int>(weft::Opcode::bind_window);
  if (!known) return "the opcode is none of weft_opcode";
  if ((from.flags & ~(kFlags | WEFT_SEND_FLUSH_PERSISTENT)) != 0) return "flags has unknown bits";
  if (from.element < WEFT_INT32 || from.element > WEFT_FP32)
    return "the element is none of weft_element";
  return nullptr;
}

template <class Request>
const char* fault_of_entries(const Request& from) {
  if (from.sges == nullptr && from.sge_count != 0) return "sges is NULL and sge_count is not 0";
  if (from.sge_count > kSges) return "a request has more than 64 scatter/gather entries";
  return nullptr;
}

void convert(const weft_send_request& from, Portion& portion) {
  weft::SendRequest& to = *std::construct_at(&portion.sends.at[portion.requests]);
  to.id = from.id;
  to.opcode = static_cast<weft::Opcode>(from.opcode);
  to.flags = static_cast<weft::SendFlags>(from.flags & kFlags);
  to.imm = from.imm;
  to.invalidate = {from.invalidate};
  to.remote_address = from.remote_address;
  to.rkey = {from.rkey};
  to.compare_add = from.compare_add;
  to.swap = from.swap;
  to.remote_qpn = {from.remote_qpn};
  to.remote_qkey = from.remote_qkey;
  to.imm_high = from.imm_high;
  to.element = static_cast<weft::Element>(from.element);
  const bool persistent = (from.flags & WEFT_SEND_FLUSH_PERSISTENT) != 0;
  to.flush = {.visible = !persistent, .persistent = persistent, .length = from.flush_length};
  if (from.to != nullptr) {
    to.to =
        std::construct_at(&portion.destinations.at[portion.requests], weft::c::path_of(*from.to));
  }
}

void convert(const weft_recv_request& from, Portion& portion) {
  std::construct_at(&portion.receives.at[portion.requests])->id = from.id;
}

const char* fault_of(const weft_recv_request&) { return nullptr; }

// How many requests from `at` on are in `portion` now; `fault` says why the next one is not, if it
// can be in none.
template <class Request>
void gather(std::span<const Request> requests, Portion& portion, const char*& fault) {
  for (const Request& request : requests) {
    fault = fault_of(request);
    if (fault == nullptr) fault = fault_of_entries(request);
    if (fault != nullptr) return;
    std::span<const weft::Sge> sges;
    if (!portion.take(request.sges, request.sge_count, sges)) return;
    convert(request, portion);
    if constexpr (std::is_same_v<Request, weft_send_request>)
      portion.sends.at[portion.requests].sges = sges;
    else
      portion.receives.at[portion.requests].sges = sges;
    ++portion.requests;
  }
}

// Posts all by post(portion).
template <class Request, class Post>
weft_code post_all(std::span<const Request> requests, size_t* accepted, Post post) {
  size_t count = 0;
  if (accepted == nullptr) accepted = &count;
  *accepted = 0;
  while (*accepted < requests.size()) {
    Portion portion;
    const char* fault = nullptr;
    gather(requests.subspan(*accepted), portion, fault);
    if (portion.requests != 0) {
      const weft::PostStatus status = post(portion);
      *accepted += status.accepted;
      if (!status) return failed(status.code, status.reason);
    }
    if (fault != nullptr) return failed(weft::Code::invalid_argument, fault);
  }
  return WEFT_OK;
}

}  // namespace

weft_code weft_post_send(const weft_qp* qp, const weft_send_request* requests, size_t count,
                         size_t* accepted) {
  return call({{"qp", qp}, {"requests", requests}}, [&] {
    return post_all(std::span(requests, count), accepted, [&](const Portion& portion) {
      return qp->it.post_send(std::span(portion.sends.at, portion.requests));
    });
  });
}

weft_code weft_post_recv(const weft_qp* qp, const weft_recv_request* requests, size_t count,
                         size_t* accepted) {
  return call({{"qp", qp}, {"requests", requests}}, [&] {
    return post_all(std::span(requests, count), accepted, [&](const Portion& portion) {
      return qp->it.post_recv(std::span(portion.receives.at, portion.requests));
    });
  });
}

weft_address_vector weft_sender_of(const void* network_header) {
  if (network_header == nullptr) return {};
  const auto* const bytes = static_cast<const std::byte*>(network_header);
  return weft::c::path_of(weft::sender_of(
      std::span<const std::byte, weft::kNetworkHeaderLength>(bytes, weft::kNetworkHeaderLength)));
}
