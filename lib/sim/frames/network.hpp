// SPDX-License-Identifier: BSD-3-Clause
// A simulated network: nodes, and links with a rate, a delay and a bounded queue. A host is a node
// with an address: packets that arrive are queued there until its port receives them. A switch is a
// node too (switch_node.hpp).
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "lib/congestion/digest.hpp"
#include "lib/sim/frames/event_hash.hpp"
#include "lib/sim/frames/event_queue.hpp"
#include "lib/sim/frames/packet_pool.hpp"
#include "weft/types.hpp"

namespace weft::sim {

// The address of host number `index` in the private range that simulations use: fd77:6566:7400::1..
Gid host_address(uint32_t index);

struct LinkOptions {
  Rate rate = Rate::from_gbps(100);
  Duration delay = Duration::from_us(1);
  uint64_t queue_bytes = 1u << 20;  // capacity of the egress queue
  bool drops = false;               // a full queue drops; false: it refuses (backpressure)
  uint64_t mark_bytes = 0;          // ECN threshold of the queue; 0: no marking
  uint16_t stamp = 0;               // its number in INT records; 0: it writes none
  Duration digest_rtt{};            // T of the digest that it writes too; 0: none
};

// Bytes of a RoCEv2 frame on Ethernet before the BTH and after the ICRC: preamble, MAC header, IPv4
// and UDP headers, FCS, gap.
inline constexpr uint32_t kWireOverhead = 20 + 14 + 20 + 8 + 4;

class Node {
 public:
  virtual ~Node() = default;
  // Takes ownership of the packet.
  virtual void arrive(Packet* packet, Instant now) = 0;
};

// One direction of a cable, FIFO. One event per packet, its arrival; a link that stamps has
// another, at the start of serialisation.
class Link final : public EventHandler {
 public:
  Link(EventQueue& events, PacketPool& pool, Node& end, const LinkOptions& options);

  // Takes the packet, or drops it if the queue is full and options().drops. False: the queue is
  // full until room_at(), and the packet is still the caller's.
  bool send(Packet* packet);
  // The earliest time at which send() takes a packet.
  Instant room_at() const noexcept { return free_at_ - full_after_; }
  uint64_t dropped() const noexcept { return dropped_; }
  // Bytes accepted so far, with kWireOverhead.
  uint64_t taken_bytes() const noexcept { return taken_bytes_; }
  // Bytes in the queue, the packet being sent included.
  uint64_t waiting_bytes() const noexcept {
    const Duration left = std::max(free_at_, events_.now()) - events_.now();
    return static_cast<uint64_t>(static_cast<double>(left.ps) / 8e12 *
                                 static_cast<double>(options_.rate.bits_per_second));
  }
  // The longest queueing delay so far.
  Duration longest_wait() const noexcept { return longest_wait_; }
  const LinkOptions& options() const noexcept { return options_; }

  void on_event(Instant now, uint64_t argument) override;

 private:
  void stamp(Packet& packet) noexcept;
  Duration time_for(uint32_t bytes) const noexcept {
    return ps_per_byte_ != 0 ? Duration{ps_per_byte_ * bytes} : options_.rate.time_for(bytes);
  }

  EventQueue& events_;
  PacketPool& pool_;
  Node& end_;
  LinkOptions options_;
  int64_t ps_per_byte_;  // 0: not a whole number
  Duration mark_after_;  // time to drain mark_bytes; 0: no marking
  Duration longest_wait_;
  Duration full_after_;  // time to drain a full queue
  Instant free_at_;      // end of the serialisation of the last packet accepted
  uint64_t dropped_ = 0;
  uint64_t taken_bytes_ = 0;
  uint64_t sent_bytes_ = 0;  // of the packets that were stamped
  congestion::DigestMeter meter_;
};

class Host;

class Network {
 public:
  Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  Host& add_host(const Gid& address);
  // A cable between two hosts. Returns the direction from `a` to `b`.
  Link& connect(Host& a, Host& b, const LinkOptions& options);
  // The default route of `host`, for destinations that it has no cable to: a link to `node`, a
  // switch.
  Link& uplink(Host& host, Node& node, const LinkOptions& options);

  EventQueue& events() noexcept { return events_; }
  PacketPool& pool() noexcept { return pool_; }
  Instant now() const noexcept { return events_.now(); }
  const EventHash& hash() const noexcept { return hash_; }
  // Arrivals at hosts.
  uint64_t packets() const noexcept { return packets_; }
  // For measurements of speed: no hash.
  void hash_arrivals(bool on) noexcept { hashes_ = on; }

 private:
  friend class Host;
  void note_arrival(uint32_t host, const Packet& packet) noexcept {
    ++packets_;
    if (hashes_) hash_.add(now(), host, packet.bytes, packet.length);
  }

  EventQueue events_;
  PacketPool pool_;
  EventHash hash_;
  bool hashes_ = true;
  uint64_t packets_ = 0;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Link>> links_;
};

class Host final : public Node, public EventHandler {
 public:
  Host(Network& network, uint32_t index, const Gid& address)
      : network_(network), index_(index), address_(address) {}

  enum class Sent : uint8_t { taken, wait, no_route };
  // Takes ownership only if the result is `taken`. A packet to a multicast group is sent on every
  // cable, and delivered to this host too if it is a member; a full link drops its copy.
  Sent send(Packet* packet);
  // Receives packets to the group, until leave().
  void join(const Gid& group) { groups_.push_back(group); }
  void leave(const Gid& group) noexcept { std::erase(groups_, group); }

  PacketQueue& received() noexcept { return received_; }
  const Gid& address() const noexcept { return address_; }
  uint32_t index() const noexcept { return index_; }
  Network& network() noexcept { return network_; }
  // `handler` gets an event at each arrival at an empty receive queue, with `argument`.
  void notify(EventHandler* handler, uint64_t argument) noexcept {
    handler_ = handler;
    handler_argument_ = argument;
  }
  void arrive(Packet* packet, Instant now) override;
  void on_event(Instant now, uint64_t argument) override;  // multicast loopback

 private:
  friend class Network;
  struct Route {
    Gid destination;
    Link* link;
  };

  Sent send_to_group(Packet* packet);
  bool wants(const Packet& packet) const noexcept;

  Network& network_;
  const uint32_t index_;
  const Gid address_;
  std::vector<Route> routes_;
  Link* uplink_ = nullptr;
  std::vector<Gid> groups_;
  PacketQueue received_;
  EventHandler* handler_ = nullptr;
  uint64_t handler_argument_ = 0;
};

}  // namespace weft::sim
