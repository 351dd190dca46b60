// SPDX-License-Identifier: BSD-3-Clause
// Frames in and out of the buffers of an AF_XDP socket. See af_xdp_port.hpp.
#include "providers/port/af_xdp/af_xdp_port.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/base/membership.hpp"
#include "providers/port/ethernet/framing.hpp"

namespace weft::port {
namespace {

constexpr uint32_t kEthernet = 14;
// Neighbours are listened to in every 64th turn without frames, and every 1,024th with some.
constexpr uint32_t kIdleMask = 63, kBusyMask = 1023;

transport::Capabilities describe(const ethernet::Interface& interface, const af_xdp::Socket& socket,
                                 uint16_t udp_port) {
  const uint32_t holds = socket.most_bytes() - kEthernet;
  transport::Capabilities c =
      ethernet::capabilities_of(interface.address, std::min(interface.mtu, holds), udp_port);
  c.max_mtu = ethernet::capabilities_of(interface.address, holds, udp_port).active_mtu;
  c.signs = true;
  c.in_flight_limit = 1u << 20;  // fits the ring of 4,096 buffers, small frames too
  return c;
}

}  // namespace

AfXdpPort::AfXdpPort(Parts parts)
    : interface_(parts.interface),
      socket_(std::move(parts.socket)),
      redirect_(std::move(parts.redirect)),
      neighbour_socket_(std::move(parts.neighbours)),
      neighbours_(ethernet::self_of(interface_)),
      capabilities_(describe(interface_, *socket_, parts.udp_port)),
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

size_t AfXdpPort::receive(std::span<transport::Frame> frames) noexcept {
  const size_t own = looped_.receive(frames);
  lent_ = socket_->receive({arrivals_.data(), std::min(frames.size() - own, kBurst)});
  if (lent_ == 0 && own == 0) return on_idle_poll();
  size_t count = own;
  for (size_t i = 0; i < lent_; ++i) {
    if (i + 1 < lent_) __builtin_prefetch(arrivals_[i + 1].bytes);
    count += accept(arrivals_[i], frames[count], paths_[i]);
  }
  counters_.rx_frames += count;
  if ((++busy_ & kBusyMask) == 0) poll_neighbours();
  if (count == 0) release({});
  return count;
}

// Nothing has come.
size_t AfXdpPort::on_idle_poll() noexcept {
  if ((++idle_ & kIdleMask) == 0 || !unresolved_.empty()) poll_neighbours();
  if (!unresolved_.empty()) (void)send_resolved();
  if (socket_->unsent()) socket_->wake_transmitter();
  return 0;
}

// False: it is not a frame for the engine.
bool AfXdpPort::accept(const af_xdp::Socket::Arrival& arrival, transport::Frame& frame,
                       transport::Path& path) noexcept {
  wire::Outer outer;
  wire::Transport transport;
  // Frames of this machine may come with one unfinished, and nothing says which: the ICRC covers
  // what it would.
  const wire::OuterError error =
      wire::parse_outer(arrival.bytes, arrival.length, outer, transport, false);
  if (error != wire::OuterError::none || transport.length == 0) {
    ++counters_.rx_malformed;
    return false;
  }
  const bool for_us = outer.destination == address() || groups_.has(outer.destination);
  if (!for_us || outer.destination_port != udp_port_) {
    ++counters_.rx_foreign;
    return false;
  }
  ethernet::make_frame(outer, transport, path, frame);
  return true;
}

void AfXdpPort::release(std::span<const transport::Frame>) noexcept {
  socket_->recycle({arrivals_.data(), lent_});
  lent_ = 0;
  looped_.release();
}

// ---- sending

void AfXdpPort::poll_neighbours() noexcept {
  neighbours_.update_now(base::Clock::process().now());
  counters_.rx_neighbour += neighbour_socket_.exchange(neighbours_, counters_.tx_neighbour);
}

const wire::MacAddress* AfXdpPort::find(const Gid& destination) noexcept {
  if (!destination.is_multicast()) return neighbours_.find(destination);
  group_mac_ = ethernet::mac_of_group(destination);
  return &group_mac_;
}

// Sends what waited for a neighbour. False: no buffer is free.
bool AfXdpPort::send_resolved() noexcept {
  return unresolved_.send_resolved(
      neighbours_, base::Clock::process().now(),
      [this](const transport::TxFrame& frame, const wire::MacAddress& to) {
        if (socket_->allocate_buffers(1) == 0) return false;
        lengths_[0] = fill(socket_->buffer(0), frame, to);
        const size_t count = lengths_[0] != 0;
        socket_->send({lengths_.data(), count});
        counters_.tx_frames += count;
        return true;
      });
}

size_t AfXdpPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  if (!unresolved_.empty() && !send_resolved()) return 0;
  const size_t most = std::min(frames.size(), kBurst);
  const size_t room = socket_->allocate_buffers(most);
  const Gid* destination = nullptr;
  const wire::MacAddress* to = nullptr;
  size_t count = 0, taken = 0;
  for (; taken < most; ++taken) {
    const transport::TxFrame& frame = frames[taken];
    if (destination == nullptr || *destination != frame.path->destination) {
      destination = &frame.path->destination;
      to = find(*destination);
    }
    if (to == nullptr) {
      unresolved_.enqueue(frame, neighbours_, base::Clock::process().now());
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
  if (!unresolved_.empty()) poll_neighbours();
  return taken;
}

// Bytes of the frame; 0: it is lost.
uint32_t AfXdpPort::fill(std::byte* begin, const transport::TxFrame& frame,
                         const wire::MacAddress& to) noexcept {
  if (frame.length() + wire::kMaxOuterLength > socket_->buffer_bytes()) {
    ++counters_.tx_too_long;
    return 0;
  }
  const uint32_t length = ethernet::write_frame(begin, frame, neighbours_.self(), to);
  counters_.tx_unreadable += length == 0;
  return length;
}

// ---- sleeping and counting

bool AfXdpPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  socket_->wake_transmitter();
  poll_neighbours();
  if (!looped_.empty() || !unresolved_.empty() || socket_->has_arrivals()) return false;
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
                                   {"af_xdp_tx_no_neighbour", unresolved_.dropped()},
                                   {"af_xdp_tx_unreadable", counters_.tx_unreadable},
                                   {"af_xdp_tx_too_long", counters_.tx_too_long},
                                   {"af_xdp_generic", redirect_.mode() == af_xdp::Mode::generic},
                                   {"af_xdp_busy_poll", socket_->busy_polls()}});
  socket_->append_counters(counters);
}

}  // namespace weft::port
