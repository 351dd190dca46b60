// SPDX-License-Identifier: BSD-3-Clause
// The hosts of a switch that are udp devices of this machine, each on a loopback address of its
// own. A device opened with udp.switched=1 leaves the UDP ports of its address to the switch and
// binds them plus 1000; so what its peers send to it arrives here, goes through the switch, and is
// sent on to where it listens. The source address and port are kept (any process may bind
// 127.0.0.0/8), the ICRC covers the port that the sender meant: frames pass without being signed
// again.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/sim/frames/switch.hpp"
#include "lib/transport/frame.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/srd_headers.hpp"
#include "providers/port/udp/receiver.hpp"
#include "providers/port/udp/sender.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::bench {

class UdpHosts {
 public:
  struct Counters {
    uint64_t strays = 0;   // frames from addresses that are no hosts, or too long
    uint64_t refused = 0;  // frames that the kernel did not take
  };

  // Host i has hosts[i], an address in 127/8 as text. Errors say which address and who may hold it.
  // `udp_ports`: of the protocols that the hosts support.
  static Result<std::unique_ptr<UdpHosts>> open(const std::vector<std::string>& hosts,
                                                const std::vector<uint16_t>& udp_ports = {
                                                    port::udp::kRocePort, wire::kIntUdpPort,
                                                    wire::kSrdUdpPort});

  // Moves what has arrived into `device`, lets it run, and sends what has left. True if anything
  // moved.
  bool turn(sim::Switch& device, Instant now) {
    sim::Switch* const only[] = {&device};
    return turn(
        only, [](const transport::Frame&) { return size_t{0}; }, now);
  }
  // The same with several switches side by side: `way_of` says which one a frame goes through.
  using WayOf = size_t (*)(const transport::Frame& frame);
  bool turn(std::span<sim::Switch* const> ways, WayOf way_of, Instant now);

  sim::PacketPool& pool() noexcept { return pool_; }
  const Counters& counters() const noexcept { return counters_; }
  // Bytes that came from host `i`, as they count on the wire.
  uint64_t bytes_from(size_t i) const noexcept { return sides_[i]->bytes; }

 private:
  struct Side {
    port::udp::LocalAddress local;
    std::vector<port::udp::ReceiveSocket> sockets;
    std::vector<std::unique_ptr<port::udp::Receiver>> receivers;  // of those
    std::unique_ptr<port::udp::Sender> sender;                    // of frames from this host
    std::vector<transport::TxFrame> leaving;
    uint64_t bytes = 0;
  };

  static Result<std::unique_ptr<Side>> open_side(const std::string& host,
                                                 const std::vector<uint16_t>& udp_ports);
  size_t host_of(const Gid& address) const noexcept;
  bool fetch(std::span<sim::Switch* const> ways, WayOf way_of, Instant now);
  void send(sim::Switch& device);

  sim::PacketPool pool_;
  std::vector<std::unique_ptr<Side>> sides_;
  sim::PacketQueue sent_;  // whose memory is lent to the senders
  Counters counters_;
};

}  // namespace weft::bench
