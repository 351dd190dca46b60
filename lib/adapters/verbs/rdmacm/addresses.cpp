// SPDX-License-Identifier: BSD-3-Clause
// See addresses.hpp. The kernel's routing table says which source address a destination has, and
// the GID tables which device has that address. Loopback addresses and those of this host lead to a
// device that has other addresses only, too: to the same device at the peer, which is on this host.
#include "lib/adapters/verbs/rdmacm/addresses.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lib/base/kernel/socket.hpp"
#include "lib/base/socket_gid.hpp"

namespace weft::rdmacm {

namespace {

constexpr uint16_t kAnyPort = 9;  // connect() of a UDP socket sends nothing

class DatagramSocket {
 public:
  explicit DatagramSocket(int family) noexcept
      : fd(base::kernel_socket(family, SOCK_DGRAM | SOCK_CLOEXEC)) {}
  ~DatagramSocket() {
    if (fd >= 0) close(fd);
  }
  DatagramSocket(const DatagramSocket&) = delete;
  DatagramSocket& operator=(const DatagramSocket&) = delete;
  const int fd;
};

const sockaddr* plain(const sockaddr_storage& address) noexcept {
  return reinterpret_cast<const sockaddr*>(&address);
}

std::optional<Gid> kernel_source(const sockaddr* destination) {
  sockaddr_storage to{};
  std::memcpy(&to, destination, length_of(destination));
  set_port(reinterpret_cast<sockaddr*>(&to), kAnyPort);
  const DatagramSocket socket(to.ss_family);
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  if (socket.fd < 0 ||
      connect(socket.fd, plain(to), static_cast<socklen_t>(length_of(plain(to)))) ||
      getsockname(socket.fd, reinterpret_cast<sockaddr*>(&from), &length))
    return {};
  return gid_of(plain(from));
}

bool is_of_this_host(const Gid& gid) {
  sockaddr_storage address{};
  set_address(address, gid, 0);
  const DatagramSocket socket(address.ss_family);
  return socket.fd >= 0 &&
         bind(socket.fd, plain(address), static_cast<socklen_t>(length_of(plain(address)))) == 0;
}

bool has_address(const Context& context, const Gid& gid) {
  const auto& all = context.addresses;
  return std::find(all.begin(), all.end(), gid) != all.end();
}

template <class Predicate>
Context* first_device(Predicate predicate) {
  for (const auto& context : contexts())
    if (predicate(*context)) return context.get();
  return nullptr;
}

Context* device_with(const Gid& gid) {
  return first_device([&](const Context& context) { return has_address(context, gid); });
}

// Any device reaches its like in this host; shared memory first.
Context* device_for_this_host() {
  if (Context* const shm = first_device(
          [](const Context& context) { return context.device.attributes().port == "shm"; }))
    return shm;
  return first_device([](const Context&) { return true; });
}

bool shares_prefix(const Gid& a, const Gid& b) {
  return !a.is_ipv4() && std::equal(a.bytes.begin(), a.bytes.begin() + 8, b.bytes.begin());
}

// Whether a peer of the device may have the address.
bool is_like(const Context& context, const Gid& gid) {
  const DeviceAttributes& has = context.device.attributes();
  if (has.port == "shm") return shares_prefix(has.gid, gid);
  return base::is_loopback(has.gid) == base::is_loopback(gid);
}

Context* loopback_device() {
  return first_device(
      [](const Context& context) { return base::is_loopback(context.device.attributes().gid); });
}

}  // namespace

bool is_ip(const sockaddr* address) noexcept {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

size_t length_of(const sockaddr* address) noexcept {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

Gid gid_of(const sockaddr* address) noexcept {
  Gid gid;
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, address, sizeof in6);
    std::memcpy(gid.bytes.data(), &in6.sin6_addr, gid.bytes.size());
    return gid;
  }
  sockaddr_in in;
  std::memcpy(&in, address, sizeof in);
  gid = Gid::from_ipv4(0, 0, 0, 0);
  std::memcpy(gid.bytes.data() + 12, &in.sin_addr, 4);
  return gid;
}

bool is_any(const sockaddr* address) noexcept {
  const Gid gid = gid_of(address);
  return gid == Gid{} || gid == Gid::from_ipv4(0, 0, 0, 0);
}

uint16_t port_of(const sockaddr* address) noexcept {
  // sin_port and sin6_port are at the same offset.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  uint16_t port;
  std::memcpy(&port, reinterpret_cast<const char*>(address) + offsetof(sockaddr_in, sin_port),
              sizeof port);
  return ntohs(port);
}

void set_port(sockaddr* address, uint16_t port) noexcept {
  const uint16_t in_order = htons(port);
  std::memcpy(reinterpret_cast<char*>(address) + offsetof(sockaddr_in, sin_port), &in_order,
              sizeof in_order);
}

void set_address(sockaddr_storage& out, const Gid& gid, uint16_t port) noexcept {
  out = {};
  if (gid.is_ipv4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    std::memcpy(&in.sin_addr, gid.bytes.data() + 12, 4);
    std::memcpy(&out, &in, sizeof in);
  } else {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    std::memcpy(&in6.sin6_addr, gid.bytes.data(), gid.bytes.size());
    std::memcpy(&out, &in6, sizeof in6);
  }
  set_port(reinterpret_cast<sockaddr*>(&out), port);
}

std::string text_of(const Gid& gid, uint16_t port) {
  const std::string host = to_string(gid);
  return (gid.is_ipv4() ? host : "[" + host + "]") + ":" + std::to_string(port);
}

Context* device_at(const Gid& address) {
  if (Context* const exact = device_with(address)) return exact;
  if (base::is_loopback(address))
    if (Context* const loopback = loopback_device()) return loopback;
  return is_of_this_host(address) ? device_for_this_host() : nullptr;
}

std::optional<Path> find_path(const std::optional<Gid>& source, const sockaddr* destination,
                              Context* device) {
  const Gid to = gid_of(destination);
  const std::optional<Gid> from = source ? source : kernel_source(destination);
  if (device == nullptr && from) device = device_with(*from);
  if (device == nullptr && base::is_loopback(to)) device = loopback_device();
  if (device == nullptr)
    device = first_device(
        [&](const Context& context) { return shares_prefix(context.device.attributes().gid, to); });
  const Gid own = device != nullptr ? device->device.attributes().gid : Gid{};
  const bool serves_it = device != nullptr && (has_address(*device, to) || is_like(*device, to));
  if (serves_it && own.is_ipv4() == to.is_ipv4())
    return Path{device, from && has_address(*device, *from) ? *from : own, to};
  if (!base::is_loopback(to) && !is_of_this_host(to)) return {};
  if (device == nullptr) device = device_for_this_host();
  if (device == nullptr) return {};
  return Path{device, from.value_or(to), device->device.attributes().gid};
}

}  // namespace weft::rdmacm
