// SPDX-License-Identifier: BSD-3-Clause
// See address.hpp.
#include "lib/adapters/fi/common/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace weft::fi {

uint32_t format_of(const Gid& gid) noexcept {
  return gid.is_ipv4() ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
}

size_t length_of(uint32_t format) noexcept {
  return format == FI_SOCKADDR_IN ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

void put_name(const Name& name, void* out) noexcept {
  if (name.gid.is_ipv4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(name.port);
    std::memcpy(&in.sin_addr, name.gid.bytes.data() + 12, 4);
    const uint32_t queue = htonl(name.queue.value);
    std::memcpy(in.sin_zero, &queue, sizeof queue);
    std::memcpy(out, &in, sizeof in);
    return;
  }
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(name.port);
  in.sin6_scope_id = name.queue.value;
  std::memcpy(&in.sin6_addr, name.gid.bytes.data(), name.gid.bytes.size());
  std::memcpy(out, &in, sizeof in);
}

std::optional<Name> name_at(const void* address) noexcept {
  sa_family_t family;
  std::memcpy(&family, static_cast<const char*>(address) + offsetof(sockaddr, sa_family),
              sizeof family);
  Name name;
  if (family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    name.gid = Gid::from_ipv4(0, 0, 0, 0);
    std::memcpy(name.gid.bytes.data() + 12, &in.sin_addr, 4);
    uint32_t queue;
    std::memcpy(&queue, in.sin_zero, sizeof queue);
    name.port = ntohs(in.sin_port);
    name.queue.value = ntohl(queue) & Psn::kMask;
    return name;
  }
  if (family != AF_INET6) return {};
  sockaddr_in6 in;
  std::memcpy(&in, address, sizeof in);
  std::memcpy(name.gid.bytes.data(), &in.sin6_addr, name.gid.bytes.size());
  name.port = ntohs(in.sin6_port);
  name.queue.value = in.sin6_scope_id & Psn::kMask;
  return name;
}

std::string text_of(const Name& name) {
  const std::string host = to_string(name.gid);
  return (name.gid.is_ipv4() ? host : "[" + host + "]") + ":" + std::to_string(name.port);
}

bool is_of_this_host(const Gid& gid) noexcept {
  sockaddr_storage address{};
  put_name({.gid = gid, .port = 0, .queue = {}}, &address);
  const int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address),
                          static_cast<socklen_t>(length_of(format_of(gid)))) == 0;
  close(fd);
  return bound;
}

Result<Name> resolve(const char* node, const char* service, int family, bool numeric) {
  addrinfo wants{};
  wants.ai_family = family;
  wants.ai_socktype = SOCK_STREAM;
  wants.ai_flags = (node == nullptr ? AI_PASSIVE : 0) | (numeric ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  const int code = getaddrinfo(node, service, &wants, &found);
  if (code != 0)
    return Error{Code::not_found, std::string("cannot resolve ") + (node ? node : "*") + ":" +
                                      (service ? service : "0") + ": " + gai_strerror(code)};
  const auto name = name_at(found->ai_addr);
  freeaddrinfo(found);
  if (!name) return Error{Code::not_found, "not an IP address"};
  return Name{.gid = name->gid, .port = name->port, .queue = {}};
}

int copy_name(const Name& name, void* out, size_t* length) noexcept {
  char bytes[sizeof(sockaddr_in6)];
  const size_t needed = length_of(format_of(name.gid));
  put_name(name, bytes);
  const size_t room = out == nullptr ? 0 : *length;
  if (room != 0) std::memcpy(out, bytes, std::min(room, needed));
  *length = needed;
  return room < needed ? -FI_ETOOSMALL : 0;
}

}  // namespace weft::fi
