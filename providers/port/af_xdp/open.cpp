// SPDX-License-Identifier: BSD-3-Clause
// Opening an af_xdp port: its keys, the interface and its queue, the socket, the program.
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "lib/base/kernel/socket.hpp"
#include "providers/port/af_xdp/af_xdp_port.hpp"
#include "providers/port/ethernet/placeholder.hpp"

namespace weft::port {
namespace {

// The largest MTU at which drivers are sure to have a frame in one buffer: the veth's.
constexpr uint32_t kOneBuffer = 3498;

struct Keys {
  Gid address;  // all zero: the interface's
  std::optional<uint32_t> queue;
  uint32_t busy_poll_us = 0;
  bool copies = false;
  af_xdp::Mode mode = af_xdp::Mode::automatic;
};

bool take_number(const std::string& text, uint32_t most, uint32_t& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end && number <= most;
}

bool parse_key(Keys& keys, const std::string& key, const std::string& value) {
  uint32_t number = 0;
  if (key == "address") {
    const Result<Gid> address = parse_gid(value);
    if (address) keys.address = *address;
    return address.ok();
  }
  if (key == "queue") {
    if (!take_number(value, 255, number)) return false;
    keys.queue = number;
    return true;
  }
  if (key == "busy_poll") return take_number(value, 1'000'000, keys.busy_poll_us);
  if (key == "copy") {
    keys.copies = value == "1";
    return value == "0" || value == "1";
  }
  if (key != "mode") return false;
  keys.mode = value == "native"    ? af_xdp::Mode::native
              : value == "generic" ? af_xdp::Mode::generic
                                   : af_xdp::Mode::automatic;
  return value == "native" || value == "generic" || value == "auto";
}

// Queues that frames may come to; 1 where the interface does not say.
uint32_t queues_of(const std::string& interface) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = reinterpret_cast<char*>(&channels);
  const int any = base::kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC);
  const bool known = ::ioctl(any, SIOCETHTOOL, &request) == 0;
  ::close(any);
  const uint32_t queues = channels.rx_count + channels.combined_count;
  return known && queues != 0 ? queues : 1;
}

Result<void> check_queue(const std::string& interface, const std::optional<uint32_t>& queue) {
  const uint32_t queues = queues_of(interface);
  if (queue && *queue < queues) return {};
  if (queue)
    return Error{Code::invalid_argument, "af_xdp.queue=" + std::to_string(*queue) + ": " +
                                             interface + " has queues 0.." +
                                             std::to_string(queues - 1)};
  if (queues == 1) return {};
  return Error{Code::not_supported,
               "af_xdp: " + interface + " spreads what comes over " + std::to_string(queues) +
                   " queues, and this port reads one: ethtool -L " + interface +
                   " combined 1; or steer UDP port 4791 to queue N (ethtool -N) and say "
                   "af_xdp.queue=N"};
}

Result<Keys> parse(const transport::PortOptions& options) {
  Keys keys;
  for (const auto& [key, value] : options.options) {
    if (!parse_key(keys, key, value))
      return Error{Code::invalid_argument,
                   "af_xdp." + key + "=" + value +
                       " is not valid; the keys of af_xdp are address=IP, queue=0..255, "
                       "mode=auto|native|generic, copy=0|1, busy_poll=MICROSECONDS"};
  }
  return keys;
}

// The interface, with our address.
Result<ethernet::Interface> find(const transport::PortOptions& options, const Keys& keys) {
  Result<ethernet::Interface> interface = ethernet::find_interface(options.where, "af_xdp");
  if (!interface) return interface.error();
  if (keys.address != Gid{}) interface->address = keys.address;
  if (interface->address == Gid{})
    return Error{Code::not_found, "af_xdp: " + options.where +
                                      " has no address: ip addr add, or say af_xdp.address=IP"};
  if (const Result<void> ok = check_queue(options.where, keys.queue); !ok) return ok.error();
  return interface;
}

// All but the placeholder.
Result<AfXdpPort::Parts> open_parts(const ethernet::Interface& interface,
                                    const transport::PortOptions& options, const Keys& keys) {
  AfXdpPort::Parts parts{.interface = interface, .udp_port = options.udp_port};
  Result<af_xdp::NeighbourSocket> neighbours = af_xdp::NeighbourSocket::open(interface.index);
  if (!neighbours) return neighbours.error();
  parts.neighbours = *std::move(neighbours);
  const uint32_t queue = keys.queue.value_or(0);
  Result<std::unique_ptr<af_xdp::Socket>> socket =
      af_xdp::Socket::open({.interface = options.where,
                            .queue = queue,
                            .copies = keys.copies,
                            .chains = interface.mtu > kOneBuffer,
                            .busy_poll_us = keys.busy_poll_us});
  if (!socket) return socket.error();
  parts.socket = *std::move(socket);
  Result<af_xdp::Redirect> redirect = af_xdp::Redirect::attach({.interface = interface.index,
                                                                .queue = queue,
                                                                .socket = parts.socket->fd(),
                                                                .address = interface.address,
                                                                .udp_port = options.udp_port,
                                                                .mode = keys.mode,
                                                                .chains = parts.socket->chains()});
  if (!redirect) return redirect.error();
  parts.redirect = *std::move(redirect);
  return parts;
}

}  // namespace

Result<void> probe_af_xdp_port(const transport::PortOptions& options) {
  const Result<Keys> keys = parse(options);
  if (!keys) return keys.error();
  const Result<ethernet::Interface> interface = find(options, *keys);
  if (!interface) return interface.error();
  const Result<af_xdp::NeighbourSocket> neighbours =
      af_xdp::NeighbourSocket::open(interface->index);
  if (!neighbours) return neighbours.error();
  return af_xdp::Redirect::probe();
}

Result<std::unique_ptr<transport::Port>> open_af_xdp_port(const transport::PortOptions& options) {
  const Result<Keys> keys = parse(options);
  if (!keys) return keys.error();
  const Result<ethernet::Interface> interface = find(options, *keys);
  if (!interface) return interface.error();
  const Result<int> placeholder =
      ethernet::hold_udp_port(interface->address, interface->index, options.udp_port, "af_xdp");
  if (!placeholder) return placeholder.error();
  Result<AfXdpPort::Parts> parts = open_parts(*interface, options, *keys);
  if (!parts) {
    if (*placeholder >= 0) ::close(*placeholder);
    return parts.error();
  }
  parts->placeholder = *placeholder;
  return std::unique_ptr<transport::Port>(new AfXdpPort(*std::move(parts)));
}

}  // namespace weft::port
