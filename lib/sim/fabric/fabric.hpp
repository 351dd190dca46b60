// SPDX-License-Identifier: BSD-3-Clause
// The network between hosts: output-queued switches with two classes (0: control, strict priority;
// 3: data), a shared buffer with per-ingress PFC, ECN marking and telemetry. Store and forward: a
// packet is at the next node, whole, after its serialisation and the link's delay. A hop through an
// idle port is one event, its arrival; a port has an event of its own only while packets wait.
//
// Or, for sprayed packets: each egress port has a queue of its own, and a packet that does not fit
// is trimmed to its header, which has strict priority (trim.cpp).
//
// Hosts are not known here: the run loop gives packets that are at_host to the hosts, which send
// with transmit() or spray(). Definitions follow the HPCC authors' simulator and, of sprayed
// packets, the simulator of the Ultra Ethernet Consortium, with the parameters in Settings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/sim/fabric/classes.hpp"
#include "lib/sim/fabric/discipline.hpp"
#include "lib/sim/fabric/event_wheel.hpp"
#include "lib/sim/fabric/packet.hpp"
#include "lib/sim/fabric/port.hpp"
#include "lib/sim/fabric/routes.hpp"
#include "lib/sim/fabric/settings.hpp"
#include "lib/sim/fabric/shared_buffer.hpp"
#include "lib/sim/fabric/spray.hpp"
#include "lib/sim/fabric/telemetry.hpp"
#include "lib/sim/fabric/topology.hpp"

namespace weft::sim::fabric {

struct Counters {
  uint64_t sent = 0;       // packets that hosts gave to the network
  uint64_t delivered = 0;  // packets that reached their host
  uint64_t dropped = 0;    // buffer or queue full
  uint64_t lost = 0;       // by links that are down or lossy
  uint64_t trimmed = 0;
  uint64_t marked = 0;
  uint64_t pauses = 0;  // PAUSE frames that arrived at a host or a switch
  uint64_t resumes = 0;
  uint64_t pfc_sent = 0;  // PFC frames of both kinds
  uint64_t pfc_lost = 0;  // sent into links that are down
  uint64_t hops = 0;
  uint64_t unrecorded = 0;  // hops beyond the records of telemetry that a packet has room for
};

class Fabric {
 public:
  Fabric(const Topology& topology, const Settings& settings, EventWheel& wheel, ChunkPool& pool,
         RouteTable& routes, TelemetryPool& telemetry, Spray& spray, base::Random& random);

  // A packet has arrived at a switch, which forwards it through packet.target.
  void forward(Packet& packet);
  // Event::port_free: a switch's port may send the next packet.
  void port_free(uint32_t number);
  // A PFC frame has arrived. True if its target is a host's port, whose NIC may send again.
  bool pfc_arrived(const Packet& frame);
  // Called for each packet that the network drops or loses: hosts that hold state of it free that.
  void on_drop(std::function<void(const Packet&)> call) { on_drop_ = std::move(call); }
  // Sends a packet through an idle port. The caller keeps the rules of its queues.
  void transmit(uint32_t number, const Packet& packet);
  // The same in a fabric for sprayed packets.
  void spray(uint32_t number, const Packet& packet);

  // Faults, at any time (links.cpp). A link that is down loses what is sent into it; what is on
  // the cable still arrives. Going down resets the PFC state of this end: true if it is a host's,
  // whose NIC may send again.
  bool set_down(uint32_t number, bool down);
  void set_rate(uint32_t number, uint32_t mbps);
  void set_loss(uint32_t number, double probability);
  // Routes have changed: a packet in flight may be at a node that its path no longer contains.
  void rerouted() noexcept { rerouted_ = true; }

  // Several data classes (classes.cpp): before the first packet.
  void use_classes(std::vector<uint8_t> class_of_flow);

  const Settings& settings() const noexcept { return settings_; }
  Port& port(uint32_t number) noexcept { return ports_[number]; }
  const std::vector<Port>& ports() const noexcept { return ports_; }
  Counters& counters() noexcept { return counters_; }
  const Counters& counters() const noexcept { return counters_; }
  DataClasses& classes() noexcept { return classes_; }
  const DataClasses& classes() const noexcept { return classes_; }
  const SharedBuffer& buffer() const noexcept { return buffer_; }

 private:
  void make_ports();
  void set_buffers_and_headroom();
  void forward_data(Port& out, Packet& packet);
  void depart(Port& out, Packet& packet);
  void serve(uint32_t number);
  void schedule(uint32_t number, Port& port);
  // Ends a packet that was dropped or lost, and counts it in `reason`.
  void discard(const Packet& packet, uint64_t& reason);
  bool idle(const Port& port) const noexcept {
    return !port.scheduled && port.free_at <= wheel_.now();
  }
  bool digests(const Port& port) const noexcept {
    return settings_.telemetry.mode == Telemetry::digest && !port.at_host;
  }

  // Sprayed packets (trim.cpp).
  void forward_sprayed(Packet& packet);
  bool fit_or_trim(Port& out, Packet& packet);
  bool trim(const Port& out, Packet& packet);
  void end_service(uint32_t number);
  void begin_service(uint32_t number, Port& port);
  void put_on_wire(const Port& port, const Packet& packet, int64_t left_at, uint32_t stamp);

  // Several data classes (classes.cpp).
  void forward_classed(Packet& packet);
  void serve_classed(uint32_t number);

  // Faults (links.cpp).
  bool link_loses(const Port& port, const Packet& packet);
  uint32_t next_port(const Port& port, const Packet& packet) const;

  // PFC and ECN (pfc.cpp), of a port's one class or of one of several.
  void send_pfc(uint32_t number, Event event, uint32_t c);
  template <class PortOrClass>
  void mark(const PortOrClass& out, Packet& packet) {
    const bool marks = discipline_.enabled()
                           ? discipline_.marks(packet, ports_[packet.target], wheel_.now(), random_)
                           : ecn_marks(out, settings_.pmax, random_);
    if (!marks) return;
    counters_.marked += !packet.tag.marked;
    packet.tag.marked = true;
  }

  const Topology& topology_;
  const Settings settings_;
  EventWheel& wheel_;
  ChunkPool& pool_;
  RouteTable& routes_;
  TelemetryPool& telemetry_;
  Spray& spray_;
  base::Random& random_;
  std::map<uint32_t, std::vector<int64_t>> times_;  // serialisation times by size, by rate
  std::vector<Port> ports_;
  SharedBuffer buffer_;
  DataClasses classes_;
  Discipline discipline_;
  Counters counters_;
  std::function<void(const Packet&)> on_drop_;
  bool rerouted_ = false;
};

}  // namespace weft::sim::fabric
