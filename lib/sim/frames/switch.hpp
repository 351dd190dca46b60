// SPDX-License-Identifier: BSD-3-Clause
// One switch that carries real frames: the model of fabric/ (shared buffer, dynamic thresholds,
// ECN, telemetry) with a host on each port, whose frames wait in memory while their lengths move
// through the model. It does no I/O and reads no clock: frames and time are arguments, so the same
// switch stands between sockets (tools/switch) and between simulated hosts (switch_node.hpp).
//
// A frame takes a cable's delay to the switch, waits for the port of its destination, takes its
// serialisation time and the other cable's delay. There is no PFC: a full buffer drops. Faults can
// be set at any time.
#pragma once

#include <memory>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/congestion/digest.hpp"
#include "lib/sim/fabric/fabric.hpp"
#include "lib/sim/frames/packet_pool.hpp"
#include "weft/result.hpp"

namespace weft::sim {

struct SwitchOptions {
  std::vector<uint32_t> mbps;             // of each port, at least two
  Duration delay = Duration::from_us(1);  // of each cable, one way
  uint64_t buffer = 4u << 20;             // bytes, shared by all ports
  // Dynamic threshold: an ingress port may hold the free buffer >> this.
  uint32_t threshold_shift = 1;
  // ECN: no mark below kmin, `pmax` of the packets at kmax, all above: in microseconds of queue.
  double kmin_us = 0, kmax_us = 0, pmax = 0;  // pmax 0: no marks
  bool telemetry = true;
  uint16_t number = 1;  // in telemetry's path
  Duration digest_rtt;  // T of the digests that it writes besides records; 0: none
  uint64_t seed = 1;
};

// Faults injected into the frames for one port.
struct SwitchFault {
  bool blackhole = false;
  uint32_t loss_ppm = 0;
  uint32_t trim_ppm = 0;  // trimmed to kTrimmed bytes
  Duration delay;
};

class Switch {
 public:
  // Length of a trimmed frame: its headers, with the DSCP of trimming (lib/wire/SRD.md). A receiver
  // that does not support trimming drops it, because its ICRC does not match.
  static constexpr uint32_t kTrimmed = 64;

  struct Counters {
    uint64_t frames = 0;   // received
    uint64_t left = 0;     // delivered to their host
    uint64_t dropped = 0;  // buffer full
    uint64_t faulted = 0;  // lost by a fault
    uint64_t trimmed = 0;  // trimmed by a fault
    uint64_t marked = 0;   // delivered with a new ECN mark
  };

  // `pool`: of all packets in and out; outlives the switch.
  static Result<std::unique_ptr<Switch>> make(const SwitchOptions& options, PacketPool& pool,
                                              Instant start);

  // A frame that has left the host on port `in`, for the host on port `out`. Takes ownership. `now`
  // is monotonic.
  void receive(uint32_t in, uint32_t out, Packet* packet, Instant now);
  // Advances time to `now`. Frames that have reached their hosts are in departed(), the caller's.
  void run(Instant now);
  PacketQueue& departed() noexcept { return departed_; }

  void set_fault(uint32_t out, const SwitchFault& fault) { faults_[out] = fault; }
  const SwitchFault& fault(uint32_t out) const noexcept { return faults_[out]; }

  uint32_t ports() const noexcept { return static_cast<uint32_t>(faults_.size()); }
  // Of the port towards host `out`: bytes queued, their maximum, bytes sent (all with
  // kWireOverhead), and its rate.
  uint32_t queue_bytes(uint32_t out) const noexcept { return to_host(out).queue_bytes; }
  uint32_t most_bytes(uint32_t out) const noexcept { return to_host(out).most_bytes; }
  uint64_t sent_bytes(uint32_t out) const noexcept { return to_host(out).sent_bytes; }
  uint32_t mbps(uint32_t out) const noexcept { return to_host(out).mbps; }
  const Counters& counters() const noexcept { return counters_; }
  // Frames inside, on a cable or in a queue.
  uint64_t inside() const noexcept { return inside_; }

 private:
  Switch(const SwitchOptions& options, fabric::Topology topology, PacketPool& pool, Instant start);
  const fabric::Port& to_host(uint32_t host) const noexcept {
    return fabric_.ports()[2 * host + 1];
  }
  int64_t time_of(Instant now) const noexcept;
  static void trim(Packet& packet) noexcept;
  uint32_t store(Packet* packet);
  Packet* remove(uint32_t slot);
  void forward(fabric::Packet& packet);
  void deliver(const fabric::Packet& packet);
  void stamp(Packet& frame, const fabric::Packet& packet);

  const SwitchOptions options_;
  const Instant start_;
  fabric::Topology topology_;
  fabric::ChunkPool chunks_;
  fabric::EventWheel wheel_;
  fabric::TelemetryPool telemetry_;
  fabric::RouteTable routes_;
  fabric::Spray spray_;  // unused: one switch has one path
  base::Random random_;
  fabric::Fabric fabric_;
  PacketPool& pool_;
  std::vector<Packet*> frames_;  // by slot, which the model's packets carry
  std::vector<uint32_t> free_;   // slots
  std::vector<SwitchFault> faults_;
  std::vector<congestion::DigestMeter> meters_;  // of the ports towards hosts
  PacketQueue departed_;
  Counters counters_;
  uint64_t inside_ = 0;
};

}  // namespace weft::sim
