// SPDX-License-Identifier: BSD-3-Clause
// See udp_hosts.hpp.
#include "tools/switch/udp_hosts.hpp"

#include <cstring>

#include "lib/sim/frames/network.hpp"
#include "providers/port/udp/options.hpp"

namespace weft::bench {

namespace {
constexpr uint32_t kBatch = 64;
}  // namespace

Result<std::unique_ptr<UdpHosts::Side>> UdpHosts::open_side(
    const std::string& host, const std::vector<uint16_t>& udp_ports) {
  Result<port::udp::LocalAddress> local = port::udp::resolve(host);
  if (!local) return local.error();
  if (local->claim != port::udp::Claim::exclusive)
    return Error{Code::invalid_argument, host +
                                             " is no loopback address; hosts of a switch have "
                                             "addresses like 127.9.0.1"};
  auto side = std::make_unique<Side>();
  // Frames are to come one by one, each with its own mark.
  const port::udp::Options options{.gso = 0, .gro = 0, .batch = kBatch};
  for (const uint16_t udp_port : udp_ports) {
    local->port = udp_port;
    Result<port::udp::ReceiveSocket> socket = port::udp::open_receive_socket(*local, options);
    if (!socket) return socket.error();
    side->sockets.push_back(std::move(*socket));
    side->receivers.push_back(std::make_unique<port::udp::Receiver>(
        side->sockets.back().socket.fd(), *local, kBatch, nullptr, nullptr));
    if (!side->receivers.back()->usable())
      return Error{Code::no_memory, "no memory for the receive buffers of " + host};
  }
  side->local = *local;
  side->sender = std::make_unique<port::udp::Sender>(
      *local, port::udp::Sender::Limits{.ports = 256, .buffer = 4u << 20, .segments = 1});
  return side;
}

Result<std::unique_ptr<UdpHosts>> UdpHosts::open(const std::vector<std::string>& hosts,
                                                 const std::vector<uint16_t>& udp_ports) {
  std::unique_ptr<UdpHosts> all(new UdpHosts);
  for (const std::string& host : hosts) {
    Result<std::unique_ptr<Side>> side = open_side(host, udp_ports);
    if (!side) return side.error();
    all->sides_.push_back(std::move(*side));
  }
  return all;
}

size_t UdpHosts::host_of(const Gid& address) const noexcept {
  size_t i = 0;
  while (i < sides_.size() && sides_[i]->local.gid != address) ++i;
  return i;
}

bool UdpHosts::turn(std::span<sim::Switch* const> ways, WayOf way_of, Instant now) {
  bool moved = fetch(ways, way_of, now);
  for (sim::Switch* const device : ways) {
    device->run(now);
    if (device->departed().empty()) continue;
    send(*device);
    moved = true;
  }
  return moved;
}

bool UdpHosts::fetch(std::span<sim::Switch* const> ways, WayOf way_of, Instant now) {
  transport::Frame frames[kBatch];
  bool came = false;
  for (size_t to = 0; to < sides_.size(); ++to) {
    for (const auto& receiver : sides_[to]->receivers) {
      const size_t n = receiver->receive(frames);
      came |= n != 0;
      for (size_t i = 0; i < n; ++i) {
        const transport::Frame& frame = frames[i];
        const size_t from = host_of(frame.path->source);
        if (from == sides_.size() || frame.length > sim::Packet::kCapacity) {
          ++counters_.strays;
          continue;
        }
        sim::Packet* const packet = pool_.take();
        packet->path = *frame.path;
        packet->length = frame.length;
        packet->ip_id = 0;
        packet->ecn = frame.ecn;
        std::memcpy(packet->bytes, frame.bytes, frame.length);
        sides_[from]->bytes += frame.length + sim::kWireOverhead;
        ways[way_of(frame) % ways.size()]->receive(static_cast<uint32_t>(from),
                                                   static_cast<uint32_t>(to), packet, now);
      }
    }
  }
  return came;
}

// Each frame leaves from the address and port that it came from.
void UdpHosts::send(sim::Switch& device) {
  while (!device.departed().empty()) {
    sim::Packet* const packet = device.departed().pop();
    sent_.push(packet);
    packet->path.destination_port =
        static_cast<uint16_t>(packet->path.destination_port + port::udp::kSwitchedShift);
    transport::TxFrame frame;
    frame.path = &packet->path;
    frame.head = packet->bytes;
    frame.head_length = packet->length;
    frame.ecn = packet->ecn;
    sides_[host_of(packet->path.source)]->leaving.push_back(frame);
  }
  for (const std::unique_ptr<Side>& side : sides_) {
    if (side->leaving.empty()) continue;
    counters_.refused += side->leaving.size() - side->sender->transmit(side->leaving);
    side->leaving.clear();
  }
  while (!sent_.empty()) pool_.give(sent_.pop());
}

}  // namespace weft::bench
