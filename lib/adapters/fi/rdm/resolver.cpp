// SPDX-License-Identifier: BSD-3-Clause
// See resolver.hpp.
#include "lib/adapters/fi/rdm/resolver.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::fi {
namespace {

constexpr uint32_t kMagic = 0x77666931;  // "wfi1"
constexpr int kBatch = 64;               // datagrams of one call: others wait for the lock

struct Datagram {
  uint32_t magic;
  uint32_t cookie;
  uint8_t gid[16];
  uint32_t queue;  // 0: a question
};
static_assert(sizeof(Datagram) == 28);

constexpr Gid loopback() noexcept { return Gid::from_ipv4(127, 0, 0, 1); }

}  // namespace

Resolver::~Resolver() {
  if (fd_ >= 0) close(fd_);
}

Result<void> Resolver::open(const Name& own) {
  own_ = own;
  const bool here = is_of_this_host(own.gid);
  is_v6_ = here && !own.gid.is_ipv4();
  fd_ = socket(is_v6_ ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) return Error{Code::io_error, std::string("socket: ") + std::strerror(errno)};
  sockaddr_storage address{};
  put_name({here ? own.gid : Gid::from_ipv4(0, 0, 0, 0), own.port, {}}, &address);
  socklen_t length = is_v6_ ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (bind(fd_, reinterpret_cast<sockaddr*>(&address), length) != 0)
    return Error{
        errno == EADDRINUSE ? Code::address_in_use : Code::io_error,
        "the UDP port of the endpoint's name, " + text_of(own) + ": " + std::strerror(errno)};
  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = name_at(&address)->port;
  return {};
}

void Resolver::ask(const Name& peer, uint32_t cookie) noexcept {
  const Datagram question{.magic = htonl(kMagic), .cookie = cookie, .gid = {}, .queue = 0};
  // An address that is none of the kernel's (shared memory) stands for this host.
  Name to = peer;
  if (!is_v6_ && !to.gid.is_ipv4()) to.gid = loopback();
  sockaddr_storage address{};
  put_name({to.gid, to.port, {}}, &address);
  sendto(fd_, &question, sizeof question, MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address),
         static_cast<socklen_t>(length_of(format_of(to.gid))));
}

void Resolver::progress(const std::function<void(uint32_t, const Gid&, QpNum)>& answered) {
  for (int i = 0; i < kBatch; ++i) {
    Datagram datagram;
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    const ssize_t got =
        recvfrom(fd_, &datagram, sizeof datagram, 0, reinterpret_cast<sockaddr*>(&from), &length);
    if (got < 0) return;
    if (got != sizeof datagram || datagram.magic != htonl(kMagic)) continue;
    if (datagram.queue == 0) {
      std::memcpy(datagram.gid, own_.gid.bytes.data(), sizeof datagram.gid);
      datagram.queue = htonl(own_.queue.value);
      sendto(fd_, &datagram, sizeof datagram, MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&from),
             length);
      continue;
    }
    Gid gid;
    std::memcpy(gid.bytes.data(), datagram.gid, sizeof datagram.gid);
    answered(datagram.cookie, gid, {ntohl(datagram.queue) & Psn::kMask});
  }
}

}  // namespace weft::fi
