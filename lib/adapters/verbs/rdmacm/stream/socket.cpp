// SPDX-License-Identifier: BSD-3-Clause
// The rsockets of the process and their addresses. A socket is named by the descriptor of its event
// channel, so that no other descriptor has its number.
#include "lib/adapters/verbs/rdmacm/stream/socket.hpp"

#include <fcntl.h>
#include <rdma/rsocket.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <unordered_map>

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/datagram/calls.hpp"
#include "lib/adapters/verbs/rdmacm/stream/calls.hpp"

namespace weft::rdmacm::stream {
namespace {

struct Sockets {
  std::mutex lock;
  std::unordered_map<int, std::shared_ptr<Socket>> all;
};

Sockets& sockets() {
  static auto& sockets = *new Sockets;  // never destroyed: programs close sockets in exit()
  return sockets;
}

void deregister(Buffer& buffer) {
  if (buffer.region != nullptr) (void)ibv_dereg_mr(buffer.region);
  buffer.region = nullptr;
}

// As getsockname(2): cut to the room that there is, and the length is that of the whole.
int give_address(const sockaddr* address, sockaddr* out, socklen_t* length) {
  const size_t size = address->sa_family != AF_UNSPEC ? length_of(address) : 0;
  if (const size_t part = std::min<size_t>(size, *length); part != 0)
    std::memcpy(out, address, part);
  *length = static_cast<socklen_t>(size);
  return 0;
}

}  // namespace

Socket::~Socket() {
  if (id != nullptr && id->qp != nullptr) rdma_destroy_qp(id);
  for (const OwnMapping& mapping : mappings) (void)ibv_dereg_mr(mapping.region);
  deregister(send_ring);
  deregister(receive_ring);
  deregister(peer);
  if (id != nullptr) (void)rdma_destroy_id(id);
  if (channel != nullptr) rdma_destroy_event_channel(channel);
}

std::shared_ptr<Socket> find(int fd) {
  Sockets& known = sockets();
  const std::lock_guard hold(known.lock);
  const auto found = known.all.find(fd);
  return found != known.all.end() ? found->second : nullptr;
}

std::shared_ptr<Socket> create() {
  auto made = std::make_shared<Socket>();
  made->channel = rdma_create_event_channel();
  if (made->channel == nullptr || fcntl(made->channel->fd, F_SETFL, O_NONBLOCK) != 0) return {};
  return made;
}

void add(const std::shared_ptr<Socket>& socket) {
  Sockets& known = sockets();
  const std::lock_guard hold(known.lock);
  known.all[socket->channel->fd] = socket;
}

}  // namespace weft::rdmacm::stream

using namespace weft::rdmacm;
using namespace weft::rdmacm::stream;

int rsocket(int domain, int type, int) {
  return guarded("rsocket", [&] {
    if (domain != AF_INET && domain != AF_INET6)
      return refuse(EAFNOSUPPORT, "rsocket", "the domain is not AF_INET or AF_INET6");
    const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (kind == SOCK_DGRAM) return datagram::create((type & SOCK_NONBLOCK) != 0);
    if (kind != SOCK_STREAM)
      return refuse(EOPNOTSUPP, "rsocket", "rsockets are SOCK_STREAM or SOCK_DGRAM");
    const std::shared_ptr<Socket> made = create();
    if (made == nullptr || rdma_create_id(made->channel, &made->id, made.get(), RDMA_PS_TCP) != 0)
      return -1;
    made->nonblocking = (type & SOCK_NONBLOCK) != 0;
    made->options.descriptor_flags = (type & SOCK_CLOEXEC) != 0 ? FD_CLOEXEC : 0;
    add(made);
    return made->channel->fd;
  });
}

int rclose(int fd) {
  return guarded("rclose", [&] {
    if (datagram::close(fd)) return 0;
    const std::shared_ptr<Socket> socket = find(fd);
    if (socket == nullptr) return refuse(EBADF, "rclose", "no rsocket of that number");
    if (socket->phase == Phase::connected) (void)rshutdown(fd, SHUT_RDWR);
    if (socket->phase == Phase::connected || socket->phase == Phase::disconnected)
      (void)rdma_disconnect(socket->id);
    Sockets& known = sockets();
    const std::lock_guard hold(known.lock);
    known.all.erase(fd);
    return 0;
  });
}

int rgetpeername(int fd, sockaddr* address, socklen_t* length) {
  if (const auto given = datagram::with_datagram("rgetpeername", fd, [&](datagram::Socket& s) {
        if (!s.destination) return refuse(ENOTCONN, "rgetpeername", "it is not connected");
        return give_address(reinterpret_cast<sockaddr*>(&*s.destination), address, length);
      }))
    return *given;
  return with_socket("rgetpeername", fd, [&](Socket& s, auto&) {
    return give_address(rdma_get_peer_addr(s.id), address, length);
  });
}

int rgetsockname(int fd, sockaddr* address, socklen_t* length) {
  if (const auto given = datagram::with_datagram("rgetsockname", fd, [&](datagram::Socket& s) {
        const sockaddr_storage name = datagram::name_of(s);
        return give_address(reinterpret_cast<const sockaddr*>(&name), address, length);
      }))
    return *given;
  return with_socket("rgetsockname", fd, [&](Socket& s, auto&) {
    return give_address(rdma_get_local_addr(s.id), address, length);
  });
}

int rfcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const bool sets = command == F_SETFL || command == F_SETFD;
  const int argument = sets ? va_arg(arguments, int) : 0;
  va_end(arguments);
  const auto change = [&](bool& nonblocking, int& descriptor_flags) {
    if (command == F_GETFL) return nonblocking ? O_RDWR | O_NONBLOCK : O_RDWR;
    if (command == F_GETFD) return descriptor_flags;
    if (!sets)
      return refuse(
          EINVAL, "rfcntl",
          ("command " + std::to_string(command) + " is not F_GETFL, F_SETFL, F_GETFD or F_SETFD")
              .c_str());
    if (command == F_SETFD) return descriptor_flags = argument, 0;
    nonblocking = (argument & O_NONBLOCK) != 0;
    return 0;
  };
  if (const auto done = datagram::with_datagram("rfcntl", fd, [&](datagram::Socket& s) {
        return change(s.nonblocking, s.descriptor_flags);
      }))
    return *done;
  return with_socket("rfcntl", fd, [&](Socket& s, auto&) {
    return change(s.nonblocking, s.options.descriptor_flags);
  });
}
