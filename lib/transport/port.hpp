// SPDX-License-Identifier: BSD-3-Clause
// A port moves frames in bursts and knows no transport word. The engine asks what it can do and
// adapts. All calls come from one thread at a time (the holder of the driver's lock), except
// wake(). Middleware (fault, pcap) are ports that wrap a port.
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
#include "weft/device.hpp"
#include "weft/result.hpp"

namespace weft::transport {

struct Capabilities {
  uint32_t max_mtu = 4096;           // largest path MTU: RoCEv2 wires 4096, shm more
  uint32_t active_mtu = 4096;        // what fits the interface now (power of two)
  uint32_t burst = 64;               // frames per call that pay off
  uint32_t train_frames = 1;         // frames one train may hold (GSO segments); 1 = no trains
  uint32_t train_bytes = 0;          // bytes one train may hold, from BTH to ICRC of all frames
  uint8_t integrity_bits = 32;       // bits of an ICRC the receiver can check; 0 = frames cannot be
                                     // damaged (memory), the engine leaves the ICRC out
  bool gather = false;               // transmit() reads spans in place, before it returns
  bool signs = false;                // and sums them as it copies them, for the ICRC
  bool by_reference = false;         // stable spans may be pulled by the peer later
  uint32_t reference_threshold = 0;  // payload bytes from which by-reference pays off
  bool ecn = false;                  // sets and reads the ECN bits
  bool lossless = false;             // a full receiver pushes back instead of dropping
  bool telemetry = false;            // carries frames to and from wire::kIntUdpPort too, and
                                     // active_mtu leaves room for their block
  // Bytes to one destination that the receiver's buffer absorbs, and what a packet takes of it
  // besides its payload.
  uint32_t in_flight_limit = 1u << 20;
  uint32_t packet_overhead = 256;
};

class Port {
 public:
  virtual ~Port() = default;

  virtual const Capabilities& capabilities() const noexcept = 0;
  // The address that paths of this port carry as source.
  virtual Gid address() const noexcept = 0;
  // Further addresses (rails), any of which a path may carry too. Rail 0 is address().
  virtual std::span<const Gid> further_addresses() const noexcept { return {}; }
  // QPNs that reach this port: [first, first + count). A port that shares its address with other
  // processes gets a part of the 24-bit space.
  struct QpnRange {
    uint32_t first = 0x000010;
    uint32_t count = 0xFFFFF0 - 0x10;
  };
  virtual QpnRange qpn_range() const noexcept { return {}; }

  // The UDP source port that frames of a path asking for `wanted` will really carry, from that
  // rail. The ICRC covers it, so the engine asks once when it makes a path, and signs with the
  // answer.
  virtual uint16_t source_port(uint16_t wanted, uint32_t rail) noexcept {
    return (void)rail, wanted;
  }

  // Frames to the multicast group `group` reach this port from now on, those that it sends itself
  // too, until leave(). Both are called in turns for one group.
  virtual Result<void> join(const Gid& group) {
    (void)group;
    return Error{Code::not_supported,
                 "this port carries no multicast; roce+udp, roce+af_packet, roce+af_xdp and "
                 "roce+dpdk do"};
  }
  virtual void leave(const Gid& group) noexcept { (void)group; }

  // The queue pair `number` is gone: what the port keeps to bring its packets here may go too.
  virtual void forget(QpNum number) noexcept { (void)number; }

  // Fills up to frames.size() received frames; they stay valid until release(). Never blocks.
  virtual size_t receive(std::span<Frame> frames) noexcept = 0;
  // Gives frames back, all of one receive() at once, before the next receive().
  virtual void release(std::span<const Frame> frames) noexcept = 0;

  // Sends frames in order; returns how many it took (fewer = try again later; never a silent drop
  // on our side). When it returns, memory of the taken frames is free again, except stable spans
  // that went by reference. Trains: a frame with ip_id k > 0 continues the train of the frame
  // before it (same path, all but the last of equal length) and leaves with identification k; the
  // port takes a train whole or not at all.
  virtual size_t transmit(std::span<const TxFrame> frames) noexcept = 0;

  // Memory that frames may name by reference. detach returns when no frame that left this port can
  // touch [base, base + size) any more: it waits (bounded), or revokes.
  virtual void attach(void* base, size_t size) noexcept { (void)base, (void)size; }
  virtual void detach(void* base, size_t size) noexcept { (void)base, (void)size; }

  // Sleeping. prepare_wait() fills the descriptors to poll and tells peers that we sleep; false: a
  // frame is (or may be) here already, do not sleep. finish_wait() after each true answer, and
  // after a bad_alloc, for which the caller sleeps a little on what there is.
  // `events`: what to poll for. want_transmit: also wake when transmit() can go on.
  virtual bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) = 0;
  virtual void finish_wait() noexcept {}

  // News of the interface below: port_error, port_active, gid_change. The descriptor is readable
  // when there is some; -1: never. Nobody asks on the way of a packet.
  virtual int async_event_fd() const noexcept { return -1; }
  virtual std::optional<EventType> next_event() noexcept { return {}; }

  // Named counters of this port, appended to `counters`.
  virtual void append_counters(std::vector<Counter>& counters) const { (void)counters; }
};

// What stands behind PORT:WHERE and the keys of a device string.
struct PortOptions {
  std::string where;                                         // "lo", "job7", "127.0.0.3"
  std::vector<std::pair<std::string, std::string>> options;  // this port's keys, "udp." cut off
  uint16_t udp_port = 4791;                                  // where frames of the protocol go
  uint16_t telemetry_port = 0;  // where they go with telemetry; 0: this device has none
  // Of an address that processes share: which parts of the queue pair numbers may be claimed.
  uint8_t first_slot = 1, last_slot = 254;
  // Of a device with several engines, each with a port on the same address: how many there are,
  // which one this port is for, and the port of engine 0, once that is open.
  uint32_t engines = 1;
  uint32_t engine = 0;
  Port* first = nullptr;
};

// Adds to each counter that of the same name; one that is new stands behind them.
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
