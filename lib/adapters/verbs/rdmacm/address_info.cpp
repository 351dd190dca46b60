// SPDX-License-Identifier: BSD-3-Clause
// rdma_getaddrinfo: addresses by getaddrinfo(3), of the port space and type of queue pair asked
// for.
#include <netdb.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/objects.hpp"

#ifndef EAI_QPTYPE
#define EAI_QPTYPE EAI_SOCKTYPE
#endif

namespace weft::rdmacm {

namespace {

constexpr int kKnownFlags = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY;

struct FreeInfo {
  void operator()(rdma_addrinfo* info) const noexcept { rdma_freeaddrinfo(info); }
};
using Info = std::unique_ptr<rdma_addrinfo, FreeInfo>;

Info new_info() {
  Info made(static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))));
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

void copy(const void* from, size_t length, sockaddr*& out, socklen_t& out_length) {
  out = static_cast<sockaddr*>(std::malloc(length));
  if (out == nullptr) throw std::bad_alloc();
  std::memcpy(out, from, length);
  out_length = static_cast<socklen_t>(length);
}

char* copy(const char* text) {
  char* const copied = text != nullptr ? strdup(text) : nullptr;
  if (text != nullptr && copied == nullptr) throw std::bad_alloc();
  return copied;
}

// Type of queue pair and port space imply each other. False: they do not agree.
bool set_service(const rdma_addrinfo* hints, rdma_addrinfo& out) {
  int type = hints != nullptr ? hints->ai_qp_type : 0;
  int space = hints != nullptr ? hints->ai_port_space : 0;
  if (space == 0) space = type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  const bool datagrams = space == RDMA_PS_UDP || space == RDMA_PS_IPOIB;
  if (type == 0) type = datagrams ? IBV_QPT_UD : IBV_QPT_RC;
  out.ai_qp_type = type;
  out.ai_port_space = space;
  return (type == IBV_QPT_UD) == datagrams;
}

Info info_of(const addrinfo& found, const rdma_addrinfo* hints, int flags) {
  Info made = new_info();
  made->ai_flags = flags;
  made->ai_family = found.ai_family;
  const bool passive = (flags & RAI_PASSIVE) != 0;
  if (passive) {
    copy(found.ai_addr, found.ai_addrlen, made->ai_src_addr, made->ai_src_len);
    made->ai_src_canonname = copy(found.ai_canonname);
  } else {
    copy(found.ai_addr, found.ai_addrlen, made->ai_dst_addr, made->ai_dst_len);
    made->ai_dst_canonname = copy(found.ai_canonname);
    if (hints != nullptr && hints->ai_src_len != 0)
      copy(hints->ai_src_addr, hints->ai_src_len, made->ai_src_addr, made->ai_src_len);
  }
  return made;
}

// Appends an entry for each address found by getaddrinfo(3).
int look_up(const char* node, const char* service, const rdma_addrinfo* hints, Info& out) {
  const int flags = hints != nullptr ? hints->ai_flags : 0;
  addrinfo wanted{};
  if ((flags & RAI_PASSIVE) != 0) wanted.ai_flags |= AI_PASSIVE;
  if ((flags & RAI_NUMERICHOST) != 0) wanted.ai_flags |= AI_NUMERICHOST;
  if ((flags & RAI_FAMILY) != 0 || (hints != nullptr && node == nullptr))
    wanted.ai_family = hints->ai_family;
  wanted.ai_socktype = SOCK_STREAM;  // one entry for each address
  if (wanted.ai_family == AF_UNSPEC && node == nullptr) wanted.ai_family = AF_INET;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(node, service, &wanted, &list); error != 0) return error;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(list, freeaddrinfo);
  rdma_addrinfo* last = nullptr;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    if (!is_ip(at->ai_addr)) continue;
    Info made = info_of(*at, hints, flags);
    if (!set_service(hints, *made)) return EAI_QPTYPE;
    rdma_addrinfo* const added = made.get();
    if (last == nullptr)
      out = std::move(made);
    else
      last->ai_next = made.release();
    last = added;
  }
  return out != nullptr ? 0 : EAI_FAMILY;
}

// Without a node and a service: what the hints say.
int copy_hints(const rdma_addrinfo& hints, Info& out) {
  out = new_info();
  out->ai_flags = hints.ai_flags;
  out->ai_family = hints.ai_family;
  if (!set_service(&hints, *out)) return EAI_QPTYPE;
  if (hints.ai_src_len != 0)
    copy(hints.ai_src_addr, hints.ai_src_len, out->ai_src_addr, out->ai_src_len);
  if (hints.ai_dst_len != 0)
    copy(hints.ai_dst_addr, hints.ai_dst_len, out->ai_dst_addr, out->ai_dst_len);
  const sockaddr* const any = hints.ai_dst_len != 0 ? hints.ai_dst_addr : hints.ai_src_addr;
  if (any != nullptr && out->ai_family == AF_UNSPEC) out->ai_family = any->sa_family;
  return 0;
}

}  // namespace

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                     rdma_addrinfo** res) {
  return guarded("rdma_getaddrinfo", [&] {
    if (res == nullptr || (node == nullptr && service == nullptr && hints == nullptr))
      return refuse(EINVAL, "rdma_getaddrinfo", "node, service and hints are null");
    if (hints != nullptr && (hints->ai_flags & ~kKnownFlags) != 0) return EAI_BADFLAGS;
    Info found;
    const int error = node == nullptr && service == nullptr ? copy_hints(*hints, found)
                                                            : look_up(node, service, hints, found);
    if (error == 0) *res = found.release();
    return error;
  });
}

void rdma_freeaddrinfo(rdma_addrinfo* res) {
  while (res != nullptr) {
    rdma_addrinfo* const next = res->ai_next;
    std::free(res->ai_src_addr);
    std::free(res->ai_dst_addr);
    std::free(res->ai_src_canonname);
    std::free(res->ai_dst_canonname);
    std::free(res->ai_route);
    std::free(res->ai_connect);
    std::free(res);
    res = next;
  }
}
