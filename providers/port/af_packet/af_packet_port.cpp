// SPDX-License-Identifier: BSD-3-Clause
// Frames out of the ring and into a raw socket. See af_packet_port.hpp.
#include "providers/port/af_packet/af_packet_port.hpp"

#include <linux/if_packet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "lib/base/clock.hpp"
#include "lib/base/kernel/socket.hpp"
#include "lib/base/membership.hpp"
#include "providers/port/ethernet/framing.hpp"
#include "providers/port/ethernet/placeholder.hpp"

namespace weft::port {
namespace {

using af_packet::Arrival;
using ethernet::Interface;

constexpr uint32_t kClockReadMask = 1023;  // of turns with frames or without: a busy port looks too
constexpr size_t kPieces = 2 + transport::kMaxSpans + 1;  // outer headers, head, spans, tail

Error failed(Code code, const std::string& what) {
  return {code, "af_packet: " + what + ": " + std::strerror(errno)};
}

Result<int> open_sender(const Interface& interface) {
  const int socket = base::kernel_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK);
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_ifindex = interface.index;
  if (socket >= 0 && ::bind(socket, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0)
    return socket;
  if (socket >= 0) ::close(socket);
  return failed(Code::io_error, "a socket to send through");
}

}  // namespace

Result<std::unique_ptr<transport::Port>> open_af_packet_port(
    const transport::PortOptions& options) {
  Result<Interface> interface = ethernet::find_interface(options.where, "af_packet");
  if (!interface) return interface.error();
  for (const auto& [key, value] : options.options) {
    const Result<Gid> address = parse_gid(value);
    if (key != "address" || !address)
      return Error{Code::invalid_argument, "af_packet." + key + "=" + value +
                                               " is not valid; af_packet has one key: address=IP"};
    interface->address = *address;
  }
  if (interface->address == Gid{})
    return Error{Code::not_found, "af_packet: " + options.where +
                                      " has no address: ip addr add, or say af_packet.address=IP"};
  Result<af_packet::Ring> ring = af_packet::Ring::open(*interface, options.udp_port);
  if (!ring) return ring.error();
  const Result<int> placeholder =
      ethernet::hold_udp_port(interface->address, interface->index, options.udp_port, "af_packet");
  if (!placeholder) return placeholder.error();
  const Result<int> sender = open_sender(*interface);
  if (!sender) {
    if (*placeholder >= 0) ::close(*placeholder);
    return sender.error();
  }
  return std::unique_ptr<transport::Port>(
      new AfPacketPort(*interface, *std::move(ring), *sender, *placeholder, options.udp_port));
}

AfPacketPort::AfPacketPort(const Interface& interface, af_packet::Ring ring, int sender,
                           int placeholder, uint16_t udp_port)
    : ring_(std::move(ring)),
      neighbours_(ethernet::self_of(interface)),
      capabilities_(ethernet::capabilities_of(interface.address, interface.mtu, udp_port)),
      udp_port_(udp_port),
      interface_(interface.index),
      sender_(sender),
      placeholder_(placeholder),
      watch_(static_cast<uint32_t>(interface.index), interface.address),
      messages_(kBurst),
      pieces_(kBurst * kPieces),
      headers_(kBurst) {
  capabilities_.in_flight_limit = 1u << 20;  // fits the ring, small frames too
  neighbours_.add(interface.address, interface.mac);
}

AfPacketPort::~AfPacketPort() {
  ::close(sender_);
  if (placeholder_ >= 0) ::close(placeholder_);
}

// ---- multicast groups

// Adds the group's MAC address to the interface's filter; where the kernel has our address, it also
// reports membership to switches and routers (IGMP, MLD).
bool AfPacketPort::change_membership(const Gid& group, bool join) const noexcept {
  const wire::MacAddress mac = ethernet::mac_of_group(group);
  packet_mreq frames{};
  frames.mr_ifindex = interface_;
  frames.mr_type = PACKET_MR_MULTICAST;
  frames.mr_alen = mac.size();
  std::memcpy(frames.mr_address, mac.data(), mac.size());
  if (::setsockopt(ring_.fd(), SOL_PACKET, join ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP,
                   &frames, sizeof frames) != 0)
    return false;
  return placeholder_ < 0 ||
         base::change_membership(placeholder_, static_cast<uint32_t>(interface_), group, join);
}

Result<void> AfPacketPort::join(const Gid& group) {
  if (!change_membership(group, true))
    return failed(Code::io_error, "joining the multicast group " + to_string(group));
  groups_.add(group);
  return {};
}

void AfPacketPort::leave(const Gid& group) noexcept {
  (void)change_membership(group, false);
  groups_.remove(group);
}

// ---- receiving

size_t AfPacketPort::receive(std::span<transport::Frame> frames) noexcept {
  const size_t room = std::min(frames.size(), kBurst);
  size_t count = looped_.receive(frames.first(room));
  while (count < room && used_up_ < kBurst) {
    if (train_.left == 0 && !next_train()) {
      if (ring_.has_frame() && used_up_ < kBurst) continue;
      break;
    }
    paths_[count] = train_.path;
    frames[count].path = &paths_[count];
    next_segment(frames[count++]);
    if (train_.left == 0) ++used_up_;
  }
  counters_.rx_frames += count;
  if ((++polls_ & kClockReadMask) == 0) update_time();
  if (!unresolved_.empty()) (void)send_resolved();
  if (count == 0) release({});
  return count;
}

// Takes the next arrival; false: there is none, or it is none of ours.
bool AfPacketPort::next_train() noexcept {
  Arrival arrival;
  if (!ring_.next(arrival)) return false;
  if (accept(arrival)) return true;
  ++used_up_;
  return false;
}

bool AfPacketPort::accept(const Arrival& arrival) noexcept {
  wire::Outer outer;
  wire::Transport transport;
  const wire::OuterError error =
      wire::parse_outer(arrival.bytes, arrival.length, outer, transport, !arrival.checksum_to_come);
  if (error != wire::OuterError::none) {
    const bool other = error == wire::OuterError::not_ip || error == wire::OuterError::not_udp;
    const bool is_neighbour = other && neighbours_.on_message(arrival.bytes, arrival.length);
    ++(is_neighbour ? counters_.rx_neighbour
       : other      ? counters_.rx_foreign
                    : counters_.rx_malformed);
    if (is_neighbour) send_neighbour_messages();
    return false;
  }
  const bool for_us = outer.destination == address() || groups_.has(outer.destination);
  if (!for_us || outer.destination_port != udp_port_) {
    ++counters_.rx_foreign;
    return false;
  }
  if (transport.length == 0) return false;
  counters_.rx_trains += arrival.segment != 0;
  const uint32_t segment = arrival.segment != 0 ? arrival.segment : transport.length;
  train_ = {ethernet::path_of(outer), transport.bytes, transport.length, segment, outer.ip_id};
  return true;
}

// Segment k of a train leaves a device with identification k more than the train's.
void AfPacketPort::next_segment(transport::Frame& frame) noexcept {
  const transport::Path* const path = frame.path;
  const uint32_t length = std::min(train_.segment, train_.left);
  ::new (&frame) transport::Frame{.path = path,
                                  .bytes = train_.bytes,
                                  .length = length,
                                  .ip_id = train_.ip_id++,
                                  .ecn = static_cast<uint8_t>(path->traffic_class & 3)};
  train_.bytes += length;
  train_.left -= length;
}

void AfPacketPort::release(std::span<const transport::Frame>) noexcept {
  ring_.release(used_up_);
  used_up_ = 0;
  looped_.release();
}

// ---- sending

// Sends what waited for a neighbour. False: the kernel takes no more now.
bool AfPacketPort::send_resolved() noexcept {
  const bool sent = unresolved_.send_resolved(
      neighbours_, base::Clock::process().now(),
      [this](const transport::TxFrame& frame, const wire::MacAddress& to) {
        return send({&frame, 1}, to) == 1;
      });
  send_neighbour_messages();
  return sent;
}

size_t AfPacketPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  if (!unresolved_.empty() && !send_resolved()) return 0;
  send_neighbour_messages();
  size_t taken = 0;
  while (taken < frames.size()) {
    const Gid& destination = frames[taken].path->destination;
    size_t run = 1;
    while (taken + run < frames.size() && run < kBurst &&
           frames[taken + run].path->destination == destination)
      ++run;
    const bool group = destination.is_multicast();
    const wire::MacAddress group_mac = ethernet::mac_of_group(destination);
    const wire::MacAddress* const to = group ? &group_mac : neighbours_.find(destination);
    if (to == nullptr) {
      const Instant now = base::Clock::process().now();
      for (size_t i = 0; i < run; ++i) unresolved_.enqueue(frames[taken + i], neighbours_, now);
      send_neighbour_messages();
    } else if (destination == address()) {
      for (size_t i = 0; i < run; ++i) looped_.add(frames[taken + i]);
    } else {
      const size_t sent = send(frames.subspan(taken, run), *to);
      if (group && groups_.has(destination))
        for (size_t i = 0; i < sent; ++i) looped_.add(frames[taken + i]);
      if (sent < run) return taken + sent;
    }
    taken += run;
  }
  return taken;
}

// Returns how many frames are sent, or lost because the kernel refuses them for good.
size_t AfPacketPort::send(std::span<const transport::TxFrame> frames,
                          const wire::MacAddress& to) noexcept {
  for (size_t i = 0; i < frames.size(); ++i) {
    const transport::TxFrame& frame = frames[i];
    iovec* const first = &pieces_[i * kPieces];
    iovec* piece = first;
    const auto add = [&](const std::byte* data, size_t size) {
      *piece++ = {const_cast<std::byte*>(data), size};
    };
    const wire::Outer outer = ethernet::outer_of(frame, neighbours_.self(), to);
    add(headers_[i].data(), wire::emit_outer(headers_[i].data(), outer, frame.length()));
    add(frame.head, frame.head_length);
    for (uint32_t k = 0; k < frame.span_count; ++k) add(frame.spans[k].data, frame.spans[k].length);
    if (frame.tail_length != 0) add(frame.tail, frame.tail_length);
    messages_[i] = {};
    messages_[i].msg_hdr.msg_iov = first;
    messages_[i].msg_hdr.msg_iovlen = static_cast<size_t>(piece - first);
  }
  size_t done = 0;
  while (done < frames.size()) {
    const int sent = ::sendmmsg(sender_, &messages_[done],
                                static_cast<unsigned>(frames.size() - done), MSG_DONTWAIT);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
      counters_.tx_frames += static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN) {
      return done;
    } else if (errno != EINTR) {
      ++done;
      ++counters_.tx_errors;
    }
  }
  return done;
}

void AfPacketPort::update_time() noexcept {
  neighbours_.update_now(base::Clock::process().now());
  send_neighbour_messages();
}

void AfPacketPort::send_neighbour_messages() noexcept {
  for (std::span<const std::byte> bytes; !(bytes = neighbours_.next_message()).empty();)
    counters_.tx_neighbour += ::send(sender_, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0;
}

// ---- sleeping and counting

bool AfPacketPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  update_time();
  if (!looped_.empty() || !unresolved_.empty() || train_.left != 0 || ring_.has_frame())
    return false;
  descriptors.push_back({ring_.fd(), POLLIN, 0});
  if (want_transmit) descriptors.push_back({sender_, POLLOUT, 0});
  return true;
}

// An interface that went down leaves an error on its sockets, for which poll() would return at once
// until it is read.
void AfPacketPort::finish_wait() noexcept {
  for (const int socket : {ring_.fd(), sender_}) {
    int error = 0;
    socklen_t length = sizeof error;
    (void)::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  }
}

void AfPacketPort::append_counters(std::vector<Counter>& counters) const {
  ring_drops_ += ring_.take_drops();
  counters.insert(counters.end(), {{"af_packet_rx_frames", counters_.rx_frames},
                                   {"af_packet_rx_trains", counters_.rx_trains},
                                   {"af_packet_rx_foreign", counters_.rx_foreign},
                                   {"af_packet_rx_malformed", counters_.rx_malformed},
                                   {"af_packet_rx_neighbour", counters_.rx_neighbour},
                                   {"af_packet_rx_ring_drops", ring_drops_},
                                   {"af_packet_tx_frames", counters_.tx_frames},
                                   {"af_packet_tx_neighbour", counters_.tx_neighbour},
                                   {"af_packet_tx_no_neighbour", unresolved_.dropped()},
                                   {"af_packet_tx_errors", counters_.tx_errors}});
}

}  // namespace weft::port
