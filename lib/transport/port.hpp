// SPDX-License-Identifier: BSD-3-Clause
// A port moves frames in bursts and knows nothing of the transport protocol. The engine adapts to
// its capabilities. All calls come from one thread at a time, the holder of the driver's lock.
// Middleware (fault, pcap, tracer) are ports that wrap a port.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/transport/frame.hpp"
#include "lib/transport/lost_peers.hpp"
#include "weft/device.hpp"
#include "weft/result.hpp"

namespace weft::transport {

// What a port can do. Constant while it is open.
struct Capabilities {
  uint32_t max_mtu = 4096;           // largest path MTU: RoCEv2 wires 4096, shm more
  uint32_t active_mtu = 4096;        // what fits the interface now (power of two)
  uint32_t burst = 64;               // frames per call of transmit()
  uint32_t train_frames = 1;         // frames one train may hold (GSO segments); 1 = no trains
  uint32_t train_bytes = 0;          // bytes one train may hold, from BTH to ICRC of all frames
  uint8_t integrity_bits = 32;       // bits of an ICRC the receiver can check; 0 = frames cannot be
                                     // damaged (memory), the engine leaves the ICRC out
  bool gather = false;               // transmit() reads spans in place, before it returns
  bool signs = false;                // and computes the ICRC while it copies them
  bool by_reference = false;         // stable spans may be pulled by the peer later
  uint32_t reference_threshold = 0;  // payload bytes from which by-reference is faster
  bool ecn = false;                  // sets and reads the ECN bits
  bool lossless = false;             // a full receiver causes backpressure instead of drops
  bool asks = false;                 // ask() may find out that a peer is gone
  bool telemetry = false;            // carries frames to and from wire::kIntUdpPort too, and
                                     // active_mtu leaves room for their block
  // Bytes of the receiver's buffer that one sender may fill, and the overhead of a packet in it.
  uint32_t in_flight_limit = 1u << 20;
  uint32_t packet_overhead = 256;
};

// See the top of this file.
class Port {
 public:
  virtual ~Port() = default;

  virtual const Capabilities& capabilities() const noexcept = 0;
  // The source address of paths of this port.
  virtual Gid address() const noexcept = 0;
  // Further source addresses (rails). Rail 0 is address().
  virtual std::span<const Gid> further_addresses() const noexcept { return {}; }
  // The queue pair numbers of this port: [first, first + count). A port that shares its address
  // with other processes or engines has a part of the 24-bit space.
  struct QpnRange {
    uint32_t first = 0x000010;
    uint32_t count = 0xFFFFF0 - 0x10;
  };
  virtual QpnRange qpn_range() const noexcept { return {}; }

  // The UDP source port that frames will carry from `rail` if a path asks for `wanted`. The ICRC
  // covers it, so the engine calls this once when it creates a path.
  virtual uint16_t source_port(uint16_t wanted, uint32_t rail) noexcept {
    return (void)rail, wanted;
  }

  // From now on frames to the multicast group are received, its own included, until leave(). For
  // one group join() and leave() are called alternately.
  virtual Result<void> join(const Gid& group) {
    (void)group;
    return Error{Code::not_supported,
                 "this port carries no multicast; roce+udp, roce+auto, roce+af_packet, roce+af_xdp "
                 "and roce+dpdk do"};
  }
  virtual void leave(const Gid& group) noexcept { (void)group; }

  // Queue pair 1 of an address that several devices share. A device with a connection manager says
  // so once; then it also gets the management datagrams that are for no device in particular. Its
  // communication IDs begin with the upper 8 bits of its queue pair numbers: by them the others
  // find it.
  virtual void open_general_services() {}
  // Requests for `service` come to this device until release_service(). Errors: address_in_use
  // (names the process that listens), no_memory, busy.
  virtual Result<void> claim_service(uint64_t service) { return (void)service, Result<void>{}; }
  virtual void release_service(uint64_t service) { (void)service; }

  // Whether frames to queue pair `number` of the device at `destination` may leave on a path with
  // Path::in_memory. Of a port that reaches some peers in memory and others by a network. May
  // connect to the peer; not on the data path.
  virtual bool reaches_in_memory(const Gid& destination, QpNum number) noexcept {
    return (void)destination, (void)number, false;
  }

  // From now on receive() adds to `lost` the peers that are gone, and what they sent before has
  // been received by then. Only those that this port sent to, or that ask() was called for. `lost`
  // outlives the port.
  virtual void report_lost_peers(LostPeers& lost) { (void)lost; }
  // A peer does not answer: finds out whether a process has its UDP port. `datagram` has a nonce
  // that no one else knows; an answer that the port is closed must repeat it. Where
  // Capabilities::asks; does nothing if the same address was asked a moment ago.
  virtual void ask(const Path& path, std::span<const std::byte> datagram) noexcept {
    (void)path, (void)datagram;
  }
  // Of a peer whose end this port would report: where it is in what was sent to it, if some of that
  // lies unread. Twice the same place: it lives, and does nothing (stopped, without a processor).
  virtual std::optional<uint64_t> unread(const Gid& destination, QpNum number,
                                         bool in_memory) noexcept {
    return (void)destination, (void)number, (void)in_memory, std::nullopt;
  }

  // The queue pair `number` has been destroyed: the port may remove its steering rules.
  virtual void forget(QpNum number) noexcept { (void)number; }

  // Fills up to frames.size() received frames; they stay valid until release(). Never blocks.
  virtual size_t receive(std::span<Frame> frames) noexcept = 0;
  // Returns all frames of the last receive(), before the next receive().
  virtual void release(std::span<const Frame> frames) noexcept = 0;

  // Sends frames in order; returns how many it took (fewer: the port is full, try again later).
  // When it returns, the memory of the frames taken may be reused, except stable spans sent by
  // reference. Trains: a frame with ip_id k > 0 continues the train of the frame before it (same
  // path, all but the last of equal length) and is sent with identification k; the port takes a
  // train whole or not at all.
  virtual size_t transmit(std::span<const TxFrame> frames) noexcept = 0;

  // Memory that frames may reference. detach() returns when no frame sent by this port can access
  // [base, base + size) any more: it revokes references, or waits for a bounded time.
  virtual void attach(void* base, size_t size) noexcept { (void)base, (void)size; }
  virtual void detach(void* base, size_t size) noexcept { (void)base, (void)size; }

  // Sleeping. prepare_wait() appends the descriptors to poll and enables notifications of peers.
  // False: a frame may have been received already, do not sleep. finish_wait() is called after each
  // true result, and after std::bad_alloc, when the caller sleeps briefly on the descriptors so
  // far. `want_transmit`: also wake when transmit() can take frames again.
  virtual bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) = 0;
  virtual void finish_wait() noexcept {}

  // Events of the network interface: port_error, port_active, gid_change. The descriptor is
  // readable when there is one; -1: never. Not called on the data path.
  virtual int async_event_fd() const noexcept { return -1; }
  virtual std::optional<EventType> next_event() noexcept { return {}; }

  // Named counters of this port, appended to `counters`.
  virtual void append_counters(std::vector<Counter>& counters) const { (void)counters; }
};

// The parameters of opening a port, from PORT:WHERE and the keys of a device string.
struct PortOptions {
  std::string where;                                         // "lo", "job7", "127.0.0.3"
  std::vector<std::pair<std::string, std::string>> options;  // keys of this port without "PORT."
  uint16_t udp_port = 4791;                                  // UDP destination port of frames
  uint16_t telemetry_port = 0;  // UDP destination port of frames with telemetry; 0: none
  bool wrapped = false;         // middleware looks at every frame
  // Processes that share an address: the slots (upper 8 bits of queue pair numbers) to claim from.
  uint8_t first_slot = 1, last_slot = 254;
  // A device with several engines has a port per engine on the same address: their number, the
  // engine of this port, and the port of engine 0 once it is open.
  uint32_t engines = 1;
  uint32_t engine = 0;
  Port* first = nullptr;
};

// Adds `more` to the counters of the same name in `sums`, and appends new names.
inline void add_counters(std::vector<Counter>& sums, std::span<const Counter> more) {
  for (const Counter& counter : more) {
    const auto same = std::find_if(sums.begin(), sums.end(),
                                   [&](const Counter& sum) { return sum.name == counter.name; });
    if (same == sums.end())
      sums.push_back(counter);
    else
      same->value += counter.value;
  }
}

}  // namespace weft::transport
