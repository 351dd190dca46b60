// SPDX-License-Identifier: BSD-3-Clause
// The rsockets of the process, their options and addresses. A socket is named by the descriptor of
// its event channel, so that no other descriptor has its number.
#include "lib/adapters/verbs/rdmacm/stream/socket.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
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

constexpr uint32_t kLeastBuffer = 4096, kMostBuffer = 1u << 28;
constexpr uint32_t kLeastQueue = 8, kMostQueue = 16384;

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

// The option as an int, and null for those that are none.
int* flag_of(Options& options, int level, int name, int& value) {
  if (level == SOL_SOCKET && name == SO_REUSEADDR) return value = options.reuses_address, &value;
  if (level == SOL_SOCKET && name == SO_KEEPALIVE) return value = options.keeps_alive, &value;
  if (level == IPPROTO_TCP && name == TCP_NODELAY) return value = options.no_delay, &value;
  return nullptr;
}

uint32_t* size_of(Options& options, int level, int name) {
  if (level == SOL_SOCKET && name == SO_SNDBUF) return &options.send_buffer;
  if (level == SOL_SOCKET && name == SO_RCVBUF) return &options.receive_buffer;
  if (level != SOL_RDMA) return nullptr;
  switch (name) {
    case RDMA_SQSIZE:
      return &options.send_queue;
    case RDMA_RQSIZE:
      return &options.receive_queue;
    case RDMA_INLINE:
      return &options.inline_bytes;
    case RDMA_IOMAPSIZE:
      return &options.mappings;
    default:
      return nullptr;
  }
}

uint32_t within_limits(int level, int name, uint32_t value) {
  if (level == SOL_SOCKET) return std::clamp(value, kLeastBuffer, kMostBuffer) & ~7u;
  if (name == RDMA_IOMAPSIZE) return std::min(kMostMappings, (value + 7) & ~7u);
  if (name == RDMA_INLINE) return std::min<uint32_t>(value, 64);
  return std::clamp(value, kLeastQueue, kMostQueue);
}

void set_flag(Options& options, int level, int name, bool value) {
  if (level == IPPROTO_TCP)
    options.no_delay = value;
  else if (name == SO_REUSEADDR)
    options.reuses_address = value;
  else
    options.keeps_alive = value;
}

int give(const void* value, size_t size, void* out, socklen_t* length) {
  const size_t part = std::min<size_t>(size, *length);
  std::memcpy(out, value, part);
  *length = static_cast<socklen_t>(part);
  return 0;
}

int give_address(const sockaddr* address, sockaddr* out, socklen_t* length) {
  return give(address, address->sa_family != AF_UNSPEC ? length_of(address) : 0, out, length);
}

// Options of a datagram socket are hints: its queues and buffers have one size.
constexpr int kNoError = 0;
bool is_known_option(int level, int name) {
  Options options;
  int ignored = 0;
  return flag_of(options, level, name, ignored) != nullptr ||
         size_of(options, level, name) != nullptr ||
         (level == SOL_SOCKET && (name == SO_ERROR || name == SO_LINGER));
}
int no_such_option() {
  return refuse(ENOPROTOOPT, "rsetsockopt, rgetsockopt", "rsockets have no such option");
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

int rsetsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  if (datagram::is_datagram(fd)) return is_known_option(level, name) ? 0 : no_such_option();
  return with_socket("rsetsockopt", fd, [&](Socket& s, auto&) {
    int number = 0, ignored = 0;
    if (value != nullptr && level == SOL_SOCKET && name == SO_LINGER) return 0;
    if (value == nullptr || length < sizeof number)
      return refuse(EINVAL, "rsetsockopt", "the value is no int");
    std::memcpy(&number, value, sizeof number);
    if (flag_of(s.options, level, name, ignored) != nullptr) {
      set_flag(s.options, level, name, number != 0);
      int reuses = number;
      if (level == SOL_SOCKET && name == SO_REUSEADDR)
        return rdma_set_option(s.id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuses,
                               sizeof reuses);
      return 0;
    }
    uint32_t* const size = size_of(s.options, level, name);
    if (size == nullptr) return refuse(ENOPROTOOPT, "rsetsockopt", "rsockets have no such option");
    if (s.phase >= Phase::resolving_address && level == SOL_SOCKET) return 0;  // a hint
    if (s.phase >= Phase::resolving_address)
      return refuse(EINVAL, "rsetsockopt", "the size is fixed when the socket connects");
    *size = within_limits(level, name, static_cast<uint32_t>(std::max(number, 0)));
    return 0;
  });
}

int rgetsockopt(int fd, int level, int name, void* value, socklen_t* length) {
  if (datagram::is_datagram(fd))
    return is_known_option(level, name) ? give(&kNoError, sizeof kNoError, value, length)
                                        : no_such_option();
  return with_socket("rgetsockopt", fd, [&](Socket& s, auto&) {
    int number = 0;
    if (level == SOL_SOCKET && name == SO_ERROR) {
      number = s.error;
      s.error = 0;
      return give(&number, sizeof number, value, length);
    }
    if (flag_of(s.options, level, name, number) != nullptr)
      return give(&number, sizeof number, value, length);
    if (const uint32_t* const size = size_of(s.options, level, name))
      return give(size, sizeof *size, value, length);
    return refuse(ENOPROTOOPT, "rgetsockopt", "rsockets have no such option");
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
  const int argument = command == F_SETFL ? va_arg(arguments, int) : 0;
  va_end(arguments);
  const auto change = [&](auto& s) {
    if (command == F_GETFL) return s.nonblocking ? O_NONBLOCK : 0;
    if (command != F_SETFL)
      return refuse(EINVAL, "rfcntl", "the command is not F_GETFL or F_SETFL");
    s.nonblocking = (argument & O_NONBLOCK) != 0;
    return 0;
  };
  if (const auto done = datagram::with_datagram("rfcntl", fd, change)) return *done;
  return with_socket("rfcntl", fd, [&](Socket& s, auto&) { return change(s); });
}
