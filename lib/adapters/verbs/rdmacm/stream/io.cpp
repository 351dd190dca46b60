// SPDX-License-Identifier: BSD-3-Clause
// Sending and receiving on rsockets, and mapped buffers.
#include <rdma/rsocket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/datagram/calls.hpp"
#include "lib/adapters/verbs/rdmacm/stream/calls.hpp"

namespace weft::rdmacm::stream {

namespace {

using Hold = std::unique_lock<std::mutex>;

// Why a socket neither sends nor receives; sets errno.
ssize_t not_connected(const Socket& s) {
  if (s.phase == Phase::failed) return errno = s.error, -1;
  return errno = s.phase < Phase::connected ? ENOTCONN : EPIPE, -1;
}

ssize_t send_all(Socket& s, Hold& hold, const void* data, size_t length, int flags) {
  const bool blocks = !s.nonblocking && (flags & MSG_DONTWAIT) == 0;
  const auto* const bytes = static_cast<const std::byte*>(data);
  const auto ended = [&] { return s.phase != Phase::connected || !s.may_send; };
  size_t sent = 0;
  while (sent < length) {
    if (!wait_until(s, hold, blocks, [&] { return ended() || can_send(s); })) break;
    if (ended()) break;
    sent += send_some(s, bytes + sent, length - sent);
  }
  if (sent != 0 || length == 0) return static_cast<ssize_t>(sent);
  return ended() ? not_connected(s) : -1;
}

ssize_t receive(Socket& s, Hold& hold, void* data, size_t length, int flags) {
  const bool blocks = !s.nonblocking && (flags & MSG_DONTWAIT) == 0;
  const bool peeks = (flags & MSG_PEEK) != 0;
  auto* const bytes = static_cast<std::byte*>(data);
  if (s.phase < Phase::connected) return not_connected(s);
  const auto ended = [&] { return s.phase != Phase::connected || !s.may_receive; };
  size_t received = 0;
  do {
    if (!wait_until(s, hold, blocks, [&] { return s.unread != 0 || ended(); })) break;
    if (s.unread == 0) break;
    received += receive_some(s, bytes + received, length - received, peeks);
  } while ((flags & MSG_WAITALL) != 0 && !peeks && received < length);
  if (received != 0 || length == 0) return static_cast<ssize_t>(received);
  if (!ended()) return -1;  // errno is EAGAIN or EINTR
  return s.phase == Phase::failed ? not_connected(s) : 0;
}

// Calls `part` for each buffer until one is not filled.
template <class Part>
ssize_t for_each(const iovec* buffers, size_t count, Part part) {
  ssize_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const ssize_t done = part(buffers[i], total != 0);
    if (done < 0) return total != 0 ? total : done;
    total += done;
    if (static_cast<size_t>(done) < buffers[i].iov_len) break;
  }
  return total;
}

void give_address(const sockaddr_storage& from, sockaddr* out, socklen_t* length) {
  const size_t size = length_of(reinterpret_cast<const sockaddr*>(&from));
  std::memcpy(out, &from, std::min<size_t>(size, *length));
  *length = static_cast<socklen_t>(size);
}

}  // namespace

}  // namespace weft::rdmacm::stream

using namespace weft::rdmacm;
using namespace weft::rdmacm::stream;

ssize_t rsend(int fd, const void* buf, size_t len, int flags) {
  if (const auto sent = datagram::with_datagram("rsend", fd, [&](datagram::Socket& s) {
        return datagram::send(s, buf, len, flags, nullptr);
      }))
    return *sent;
  return with_socket("rsend", fd,
                     [&](Socket& s, auto& hold) { return send_all(s, hold, buf, len, flags); });
}

ssize_t rrecv(int fd, void* buf, size_t len, int flags) {
  if (const auto received = datagram::with_datagram("rrecv", fd, [&](datagram::Socket& s) {
        return datagram::receive(s, buf, len, flags, nullptr);
      }))
    return *received;
  return with_socket("rrecv", fd,
                     [&](Socket& s, auto& hold) { return receive(s, hold, buf, len, flags); });
}

ssize_t rsendmsg(int fd, const msghdr* msg, int flags) {
  if (datagram::is_datagram(fd) && msg->msg_iovlen != 1)
    return refuse(EOPNOTSUPP, "rsendmsg", "a datagram comes from one buffer");
  if (datagram::is_datagram(fd))
    return rsendto(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags,
                   static_cast<const sockaddr*>(msg->msg_name), msg->msg_namelen);
  return with_socket("rsendmsg", fd, [&](Socket& s, auto& hold) {
    return for_each(msg->msg_iov, msg->msg_iovlen, [&](const iovec& part, bool) {
      return send_all(s, hold, part.iov_base, part.iov_len, flags);
    });
  });
}

ssize_t rrecvmsg(int fd, msghdr* msg, int flags) {
  if (datagram::is_datagram(fd) && msg->msg_iovlen != 1)
    return refuse(EOPNOTSUPP, "rrecvmsg", "a datagram goes to one buffer");
  if (datagram::is_datagram(fd))
    return rrecvfrom(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags,
                     static_cast<sockaddr*>(msg->msg_name), &msg->msg_namelen);
  return with_socket("rrecvmsg", fd, [&](Socket& s, auto& hold) {
    return for_each(msg->msg_iov, msg->msg_iovlen, [&](const iovec& part, bool has_some) {
      return receive(s, hold, part.iov_base, part.iov_len, has_some ? flags | MSG_DONTWAIT : flags);
    });
  });
}

ssize_t rsendto(int fd, const void* buf, size_t len, int flags, const sockaddr* address,
                socklen_t) {
  if (const auto sent = datagram::with_datagram("rsendto", fd, [&](datagram::Socket& s) {
        return datagram::send(s, buf, len, flags, address);
      }))
    return *sent;
  if (address != nullptr) return refuse(EISCONN, "rsendto", "the stream has its destination");
  return rsend(fd, buf, len, flags);
}

ssize_t rrecvfrom(int fd, void* buf, size_t len, int flags, sockaddr* address, socklen_t* length) {
  sockaddr_storage from{};
  if (const auto got = datagram::with_datagram("rrecvfrom", fd, [&](datagram::Socket& s) {
        return datagram::receive(s, buf, len, flags, &from);
      })) {
    if (*got >= 0 && address != nullptr) give_address(from, address, length);
    return *got;
  }
  const ssize_t received = rrecv(fd, buf, len, flags);
  if (received >= 0 && address != nullptr) (void)rgetpeername(fd, address, length);
  return received;
}

ssize_t rread(int fd, void* buf, size_t count) { return rrecv(fd, buf, count, 0); }
ssize_t rwrite(int fd, const void* buf, size_t count) { return rsend(fd, buf, count, 0); }

ssize_t rreadv(int fd, const iovec* iov, int count) {
  msghdr msg{};
  msg.msg_iov = const_cast<iovec*>(iov);
  msg.msg_iovlen = static_cast<size_t>(std::max(count, 0));
  return rrecvmsg(fd, &msg, 0);
}

ssize_t rwritev(int fd, const iovec* iov, int count) {
  msghdr msg{};
  msg.msg_iov = const_cast<iovec*>(iov);
  msg.msg_iovlen = static_cast<size_t>(std::max(count, 0));
  return rsendmsg(fd, &msg, 0);
}

off_t riomap(int fd, void* buf, size_t len, int prot, int flags, off_t offset) {
  return with_socket("riomap", fd, [&](Socket& s, auto& hold) -> off_t {
    if (buf == nullptr || len == 0 || len > UINT32_MAX || (prot & ~(PROT_WRITE | PROT_NONE)) != 0)
      return refuse(EINVAL, "riomap",
                    "the buffer is empty, or prot is not PROT_WRITE or PROT_NONE");
    if (s.phase != Phase::connected) return not_connected(s);
    if (s.mappings.size() >= s.peer_mappings)
      return refuse(ENOSPC, "riomap", "the peer has room for no more: RDMA_IOMAPSIZE there");
    const int access = prot == PROT_WRITE ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
                                          : IBV_ACCESS_LOCAL_WRITE;
    OwnMapping made{.start = buf, .offset = 0, .region = nullptr, .index = 0};
    while (std::any_of(s.mappings.begin(), s.mappings.end(),
                       [&](const OwnMapping& other) { return other.index == made.index; }))
      ++made.index;
    made.offset =
        (flags & MAP_FIXED) != 0 ? static_cast<uint64_t>(offset) : reinterpret_cast<uint64_t>(buf);
    if ((flags & MAP_FIXED) == 0 && offset != -1) made.offset = static_cast<uint64_t>(offset);
    made.region = ibv_reg_mr(s.id->pd, buf, len, access);
    if (made.region == nullptr) return -1;
    s.mappings.push_back(made);
    wait_for(s, hold, [&] {
      return s.phase != Phase::connected || send_mapping(s, made, static_cast<uint32_t>(len));
    });
    return static_cast<off_t>(made.offset);
  });
}

int riounmap(int fd, void* buf, size_t) {
  return with_socket("riounmap", fd, [&](Socket& s, auto& hold) {
    const auto found = std::find_if(s.mappings.begin(), s.mappings.end(),
                                    [&](const OwnMapping& m) { return m.start == buf; });
    if (found == s.mappings.end()) return refuse(EINVAL, "riounmap", "the buffer is not mapped");
    wait_for(s, hold, [&] { return s.phase != Phase::connected || send_mapping(s, *found, 0); });
    (void)ibv_dereg_mr(found->region);
    s.mappings.erase(found);
    return 0;
  });
}

size_t riowrite(int fd, const void* buf, size_t count, off_t offset, int flags) {
  return static_cast<size_t>(with_socket("riowrite", fd, [&](Socket& s, auto& hold) -> ssize_t {
    const bool blocks = !s.nonblocking && (flags & MSG_DONTWAIT) == 0;
    const auto* const bytes = static_cast<const std::byte*>(buf);
    size_t written = 0;
    while (written < count) {
      ssize_t part = 0;
      if (!wait_until(s, hold, blocks, [&] {
            part = s.phase == Phase::connected
                       ? write_mapped(s, bytes + written, count - written,
                                      static_cast<uint64_t>(offset) + written)
                       : -1;
            return part != 0;
          }))
        break;
      if (part < 0) {
        if (written == 0 && s.phase == Phase::connected) errno = EINVAL;
        break;
      }
      written += static_cast<size_t>(part);
    }
    return written != 0 || count == 0 ? static_cast<ssize_t>(written) : -1;
  }));
}
