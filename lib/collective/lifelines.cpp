// SPDX-License-Identifier: BSD-3-Clause
// Lifelines over sockets.
#include "lib/collective/lifelines.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "lib/collective/store.hpp"

namespace weft::collective {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Address> address_of(std::string host, uint16_t port) {
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0)
    return Error{Code::invalid_argument, "address '" + host + "': " + gai_strerror(code)};
  Address address;
  address.size = found->ai_addrlen;
  __builtin_memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

}  // namespace

Lifelines::Lifelines(Lifelines&& other) noexcept
    : listener_(std::exchange(other.listener_, -1)),
      port_(other.port_),
      lines_(std::exchange(other.lines_, {})) {}

Lifelines& Lifelines::operator=(Lifelines&& other) noexcept {
  std::swap(listener_, other.listener_);
  std::swap(port_, other.port_);
  std::swap(lines_, other.lines_);
  return *this;
}

Lifelines::~Lifelines() {
  if (listener_ >= 0) close(listener_);
  for (const Line& line : lines_) close(line.fd);
}

Result<Lifelines> Lifelines::listen(const std::string& host) {
  Result<Address> address = address_of(host, 0);
  if (!address) return address.error();
  Lifelines lifelines;
  lifelines.listener_ = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (lifelines.listener_ < 0 ||
      bind(lifelines.listener_, address->pointer(), address->size) != 0 ||
      ::listen(lifelines.listener_, 1024) != 0 ||
      getsockname(lifelines.listener_, reinterpret_cast<sockaddr*>(&address->storage),
                  &address->size) != 0)
    return system_error("cannot listen at " + host);
  lifelines.port_ = ntohs(address->storage.ss_family == AF_INET6
                              ? reinterpret_cast<sockaddr_in6*>(&address->storage)->sin6_port
                              : reinterpret_cast<sockaddr_in*>(&address->storage)->sin_port);
  return lifelines;
}

Result<void> Lifelines::connect(uint32_t peer, const std::string& host, uint16_t port,
                                uint32_t rank) {
  Result<Address> address = address_of(host, port);
  if (!address) return address.error();
  const Line line{socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), peer};
  if (line.fd < 0) return system_error("cannot make a socket");
  lines_.push_back(line);
  if (::connect(line.fd, address->pointer(), address->size) != 0 ||
      ::send(line.fd, &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank)
    return system_error("cannot reach rank " + std::to_string(peer) + " at " + host);
  return {};
}

Result<void> Lifelines::accept(uint32_t count, Duration limit) {
  const Error late{Code::timed_out, "a rank has connected its queue pair but not its lifeline"};
  for (uint32_t i = 0; i < count; ++i) {
    pollfd wanted{listener_, POLLIN, 0};
    if (poll(&wanted, 1, static_cast<int>(limit.ms())) <= 0) return late;
    Line line{accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), 0};
    if (line.fd < 0) return system_error("cannot accept a lifeline");
    lines_.push_back(line);
    wanted.fd = line.fd;
    if (poll(&wanted, 1, static_cast<int>(limit.ms())) <= 0 ||
        recv(line.fd, &line.peer, sizeof line.peer, MSG_WAITALL) != sizeof line.peer)
      return late;
    lines_.back().peer = line.peer;
  }
  close(std::exchange(listener_, -1));
  return {};
}

std::vector<uint32_t> Lifelines::ended() {
  std::vector<uint32_t> ranks;
  std::vector<pollfd> wanted;
  for (const Line& line : lines_) wanted.push_back({line.fd, POLLIN, 0});
  if (wanted.empty() || poll(wanted.data(), wanted.size(), 0) <= 0) return ranks;
  for (size_t i = lines_.size(); i-- > 0;) {
    if (wanted[i].revents == 0) continue;  // nothing is ever said: readable is the end
    ranks.push_back(lines_[i].peer);
    close(lines_[i].fd);
    lines_.erase(lines_.begin() + static_cast<ptrdiff_t>(i));
  }
  return ranks;
}

}  // namespace weft::collective
