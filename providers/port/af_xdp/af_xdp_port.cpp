// SPDX-License-Identifier: BSD-3-Clause
// Frames in and out of the buffers of an AF_XDP socket. See af_xdp_port.hpp.
#include "providers/port/af_xdp/af_xdp_port.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/base/membership.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "providers/port/ethernet/framing.hpp"

namespace weft::port {
namespace {

constexpr uint32_t kTransportHeaders = 8 + 12 + 16 + 4 + 4;  // UDP, BTH, RETH, ImmDt, ICRC
constexpr uint32_t kEthernet = 14;
constexpr uint32_t kListenMask = 63;  // neighbours are listened to in every 64th idle turn

engine::Capabilities describe(const ethernet::Interface& interface) {
  engine::Capabilities c;
  const uint32_t headers = (interface.address.is_ipv4() ? 20 : 40) + kTransportHeaders;
  const uint32_t holds = af_xdp::Socket::kMostBytes - kEthernet;
  const uint32_t passes = std::min(interface.mtu, holds);
  c.max_mtu = std::bit_floor(holds - headers);
  c.active_mtu = std::clamp(std::bit_floor(std::max(passes, headers + 1) - headers), 256u, 4096u);
  c.integrity_bits = 32;
  c.gather = true;
  c.ecn = true;
  c.in_flight_limit = 1u << 20;  // fits the ring of 4,096 buffers, small frames too
  c.packet_overhead = 512;
  return c;
}

ethernet::Neighbours::Self self_of(const ethernet::Interface& interface) {
  ethernet::Neighbours::Self self;
  self.mac = interface.mac;
  self.address = interface.address;
  self.prefix = interface.prefix;
  self.gateway = interface.gateway;
  return self;
}

// Frames of this machine may come with a checksum that a device was to fill in, and nothing says
// which: it counts as none. The ICRC covers what it would.
void clear_checksum(std::byte* frame, uint32_t length) noexcept {
  const bool v4 = frame[12] == std::byte{0x08};
  const uint32_t at = kEthernet + (v4 ? 20u : 40u) + 6;
  if (length >= at + 2) frame[at] = frame[at + 1] = std::byte{0};
}

}  // namespace

AfXdpPort::AfXdpPort(Parts parts)
    : interface_(parts.interface),
      socket_(std::move(parts.socket)),
      redirect_(std::move(parts.redirect)),
      neighbour_socket_(std::move(parts.neighbours)),
      neighbours_(self_of(interface_)),
      capabilities_(describe(interface_)),
      udp_port_(parts.udp_port),
      placeholder_(parts.placeholder),
      watch_(static_cast<uint32_t>(interface_.index), interface_.address) {
  neighbours_.add(interface_.address, interface_.mac);
}

AfXdpPort::~AfXdpPort() {
  if (placeholder_ >= 0) ::close(placeholder_);
}

// ---- multicast groups

// The kernel has the interface take the group's frames, and lets switches know.
Result<void> AfXdpPort::join(const Gid& group) {
  if (placeholder_ < 0 ||
      !base::change_membership(placeholder_, static_cast<uint32_t>(interface_.index), group, true))
    return Error{Code::io_error, "af_xdp: joining the multicast group " + to_string(group) + ": " +
                                     std::strerror(errno)};
  groups_.add(group);
  return {};
}

void AfXdpPort::leave(const Gid& group) noexcept {
  (void)base::change_membership(placeholder_, static_cast<uint32_t>(interface_.index), group,
                                false);
  groups_.remove(group);
}

// ---- receiving

size_t AfXdpPort::receive(std::span<engine::Frame> frames) noexcept {
  if (!looped_.empty()) {
    const size_t own = looped_.receive(frames);
    counters_.rx_frames += own;
    return own;
  }
  lent_ = socket_->receive({arrivals_.data(), std::min(frames.size(), kBurst)});
  if (lent_ == 0) {
    if ((++idle_ & kListenMask) == 0) talk_to_neighbours();
    if (socket_->unsent()) socket_->kick();
    return 0;
  }
  size_t count = 0;
  for (size_t i = 0; i < lent_; ++i) {
    if (i + 1 < lent_) __builtin_prefetch(arrivals_[i + 1].bytes);
    count += take(arrivals_[i], frames[count], paths_[count]);
  }
  counters_.rx_frames += count;
  if (count == 0) release({});
  return count;
}

// False: it is not a frame for the engine.
bool AfXdpPort::take(const af_xdp::Socket::Arrival& arrival, engine::Frame& frame,
                     engine::Path& path) noexcept {
  wire::Outer outer;
  wire::Transport transport;
  clear_checksum(arrival.bytes, arrival.length);
  const wire::OuterError error = wire::parse_outer(arrival.bytes, arrival.length, outer, transport);
  if (error != wire::OuterError::none || transport.length == 0) {
    ++counters_.rx_malformed;
    return false;
  }
  const bool for_us = outer.destination == address() || groups_.has(outer.destination);
  if (!for_us || outer.destination_port != udp_port_) {
    ++counters_.rx_foreign;
    return false;
  }
  path = ethernet::path_of(outer);
  frame = {};
  frame.path = &path;
  frame.bytes = transport.bytes;
  frame.length = transport.length;
  frame.ip_id = outer.ip_id;
  frame.ecn = outer.traffic_class & 3;
  return true;
}

void AfXdpPort::release(std::span<const engine::Frame>) noexcept {
  socket_->give_back({arrivals_.data(), lent_});
  lent_ = 0;
  looped_.release();
}

// ---- sending

void AfXdpPort::talk_to_neighbours() noexcept {
  counters_.rx_neighbour += neighbour_socket_.exchange(neighbours_, counters_.tx_neighbour);
}

const wire::MacAddress* AfXdpPort::find(const Gid& destination) noexcept {
  if (!destination.is_multicast()) return neighbours_.find(destination);
  everybody_ = ethernet::mac_of_group(destination);
  return &everybody_;
}

size_t AfXdpPort::transmit(std::span<const engine::TxFrame> frames) noexcept {
  const size_t most = std::min(frames.size(), kBurst);
  const size_t room = socket_->take_buffers(most);
  const Gid* destination = nullptr;
  const wire::MacAddress* to = nullptr;
  size_t count = 0, taken = 0;
  for (; taken < most; ++taken) {
    const engine::TxFrame& frame = frames[taken];
    if (destination == nullptr || *destination != frame.path->destination) {
      destination = &frame.path->destination;
      to = find(*destination);
    }
    if (to == nullptr) {
      talk_to_neighbours();
      to = find(*destination);
    }
    if (to == nullptr) {
      const auto asked = neighbours_.ask(*destination, base::Clock::process().now());
      talk_to_neighbours();
      if (asked == ethernet::Neighbours::Asked::waiting) break;
      ++counters_.tx_no_neighbour;
      continue;
    }
    if (*destination == address()) {
      looped_.add(frame);
      continue;
    }
    if (count == room) break;
    lengths_[count] = fill(socket_->buffer(count), frame, *to);
    if (lengths_[count] == 0) continue;
    ++count;
    if (groups_.has(*destination)) looped_.add(frame);
  }
  socket_->send({lengths_.data(), count});
  counters_.tx_frames += count;
  return taken;
}

// Bytes of the frame; 0: it is lost.
uint32_t AfXdpPort::fill(std::byte* begin, const engine::TxFrame& frame,
                         const wire::MacAddress& to) noexcept {
  if (frame.length() + wire::kMaxOuterLength > af_xdp::Socket::kBufferSize) {
    ++counters_.tx_too_long;
    return 0;
  }
  const wire::Outer outer = ethernet::outer_of(frame, neighbours_.self(), to);
  std::byte* at = begin + wire::emit_outer(begin, outer, frame.length());
  std::memcpy(at, frame.head, frame.head_length);
  at += frame.head_length;
  for (uint32_t i = 0; i < frame.span_count; ++i) {
    if (!memory::copy_out(at, frame.spans[i].data, frame.spans[i].length)) {
      ++counters_.tx_unreadable;
      return 0;
    }
    at += frame.spans[i].length;
  }
  std::memcpy(at, frame.tail, frame.tail_length);
  at += frame.tail_length;
  return static_cast<uint32_t>(at - begin);
}

// ---- sleeping and counting

bool AfXdpPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) noexcept {
  socket_->kick();
  talk_to_neighbours();
  if (!looped_.empty() || socket_->has_arrivals()) return false;
  descriptors.push_back(
      {socket_->fd(), static_cast<short>(want_transmit ? POLLIN | POLLOUT : POLLIN), 0});
  descriptors.push_back({neighbour_socket_.fd(), POLLIN, 0});
  return true;
}

// An interface that went down leaves an error on its sockets, for which poll() would return at once
// until it is read.
void AfXdpPort::finish_wait() noexcept {
  for (const int socket : {socket_->fd(), neighbour_socket_.fd()}) {
    int error = 0;
    socklen_t length = sizeof error;
    (void)::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  }
}

void AfXdpPort::append_counters(std::vector<Counter>& counters) const {
  counters.insert(counters.end(), {{"af_xdp_rx_frames", counters_.rx_frames},
                                   {"af_xdp_tx_frames", counters_.tx_frames},
                                   {"af_xdp_rx_foreign", counters_.rx_foreign},
                                   {"af_xdp_rx_malformed", counters_.rx_malformed},
                                   {"af_xdp_rx_neighbour", counters_.rx_neighbour},
                                   {"af_xdp_tx_neighbour", counters_.tx_neighbour},
                                   {"af_xdp_tx_no_neighbour", counters_.tx_no_neighbour},
                                   {"af_xdp_tx_unreadable", counters_.tx_unreadable},
                                   {"af_xdp_tx_too_long", counters_.tx_too_long},
                                   {"af_xdp_generic", redirect_.mode() == af_xdp::Mode::generic}});
  socket_->append_counters(counters);
}

}  // namespace weft::port
