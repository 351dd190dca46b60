// SPDX-License-Identifier: BSD-3-Clause
// The network between hosts: output-queued switches with two classes (0: control, strictly first;
// 3: data), a shared buffer with per-ingress PFC, ECN marking and telemetry. Store and forward: a
// packet is at the next node, whole, after its serialisation and the link's delay. A hop through an
// idle port is one event, its arrival; a port only gets an event of its own while packets wait.
//
// Or, for sprayed packets: each egress port has a queue of its own, and a packet that does not fit
// is cut to its header, which goes on strictly first (trim.cpp).
//
// What a host does with a packet is not known here: the run loop gives packets that are at_host to
// the hosts, which send with transmit() or spray(). Definitions follow the HPCC authors' simulator
// (HPCC authors' simulator) and 6.2 d and f (UEC simulator), with the parameters in Settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/congestion/controller.hpp"
#include "lib/congestion/digest.hpp"
#include "lib/sim/fabric/classes.hpp"
#include "lib/sim/fabric/event_wheel.hpp"
#include "lib/sim/fabric/packet.hpp"
#include "lib/sim/fabric/routes.hpp"
#include "lib/sim/fabric/spray.hpp"
#include "lib/sim/fabric/telemetry.hpp"
#include "lib/sim/fabric/topology.hpp"

namespace weft::sim::fabric {

// What the switches are like. Sizes in bytes.
struct Settings {
  bool whole_ns = true;  // serialisation is cut to whole nanoseconds
  uint32_t largest_packet = 0;
  uint64_t buffer = 0;         // per switch
  uint32_t reserve = 0;        // per ingress port
  double headroom_factor = 3;  // headroom = this x rate x delay
  uint32_t pause_shift = 3;    // threshold = free shared buffer >> this, at NIC rate and below
  uint32_t resume_offset = 0;
  uint32_t pause_bytes = 0;  // a PFC frame; 0: out of band
  uint32_t pause_at = 0;     // a threshold that does not move; 0: pause_shift's
  bool pfc = true;
  double kmin_bytes_per_gbps = 0;
  double kmax_bytes_per_gbps = 0;
  double pmax = 0;
  TelemetrySettings telemetry;
  ClassWeights class_weights{};  // of several data classes
  // Of fabrics for sprayed packets.
  bool sprayed = false;
  bool trims = true;  // else what does not fit is dropped
  uint32_t trimmed_bytes = 0;
  double queue_bytes_per_gbps = 0;  // data that an egress port holds; twice that of control
  bool marks_last_hop = true;       // the link to the receiver marks too
};

struct alignas(64) Port {
  // For every packet.
  int64_t free_at = 0;               // ps: when the packet being sent has left
  uint64_t sent_bytes = 0;           // of all packets, before the next one
  const int64_t* time_of = nullptr;  // ps by packet size
  int64_t delay = 0;                 // ps
  uint32_t queue_bytes = 0;          // class 3 waiting
  uint32_t control_bytes = 0;        // class 0 waiting
  uint32_t to = 0;                   // the node at the other end
  uint32_t node = 0;
  bool paused = false;     // class 3 may not leave
  bool scheduled = false;  // a port_free event is on its way
  bool at_host = false;    // this end is a host
  bool to_host = false;    // the other end is one
  uint32_t mbps = 0;
  // While packets wait.
  Fifo data;
  Fifo control;
  // As an ingress: what came in through this cable and is still in the switch. In fabrics for
  // sprayed packets nothing is accounted so, and the port says what it is sending instead. (Two
  // cache lines hold all that a packet touches.)
  enum class Serving : uint8_t { nothing, data, control };
  uint32_t ingress_bytes = 0;  // in the reserve and the shared buffer
  union {
    uint32_t headroom_used = 0;
    uint32_t serving_bytes;  // sprayed: of data, until free_at: no longer in queue_bytes
  };
  union {
    uint32_t headroom = 0;
    uint32_t limit;  // sprayed: data that fits, with the packet being sent
  };
  uint8_t pause_shift = 0;
  bool pausing = false;                // the other end has been told to stop
  Serving serving = Serving::nothing;  // sprayed: which queue's first packet is being sent
  bool faulty = false;                 // down, or loses packets
  // Marking.
  uint32_t kmin = 0;
  uint32_t kmax = 0;
  // What is reported.
  uint32_t most_bytes = 0;  // the largest queue_bytes
  int64_t paused_since = 0;
  int64_t paused_time = 0;         // ps
  congestion::DigestMeter digest;  // hpcc-pint's average
  double busy_ns = 0;              // what counted_bytes took, at the rates of their time
  uint64_t counted_bytes = 0;
  // Faults (links.cpp).
  bool down = false;
  double loss = 0;     // share of the packets sent
  uint32_t epoch = 0;  // how often it went down: a PFC frame from before says nothing
};
static_assert(offsetof(Port, most_bytes) <= 128);

struct Counters {
  uint64_t sent = 0;       // packets that hosts gave to the network
  uint64_t delivered = 0;  // packets that reached their host
  uint64_t dropped = 0;    // for want of room
  uint64_t lost = 0;       // by links that were down or lose packets
  uint64_t trimmed = 0;
  uint64_t marked = 0;
  uint64_t pauses = 0;  // PAUSE frames that arrived at a host or a switch
  uint64_t resumes = 0;
  uint64_t pfc_sent = 0;  // PFC frames of both kinds
  uint64_t pfc_lost = 0;  // those sent into links that were down
  uint64_t hops = 0;
};

class Fabric {
 public:
  Fabric(const Topology& topology, const Settings& settings, EventWheel& wheel, ChunkPool& pool,
         RouteTable& routes, TelemetryPool& telemetry, Spray& spray, base::Random& random);

  // A packet is at a switch and wants to leave through packet.target.
  void forward(Packet& packet);
  // A switch's port may send the next packet.
  void port_free(uint32_t port);
  // A PFC frame is here. True if `port` is a host's, which must look for something to send then.
  bool pfc_arrived(const Packet& frame);
  // Hosts that keep something for each packet hear of those that the network drops.
  void on_drop(std::function<void(const Packet&)> call) { on_drop_ = std::move(call); }
  // Sends a packet through an idle port. The caller keeps the rules of its queues.
  void transmit(uint32_t port, const Packet& packet);
  // The same in a fabric for sprayed packets.
  void spray(uint32_t port, const Packet& packet);

  // Faults, at any time (links.cpp). A link that is down swallows what is sent into it; what is on
  // the cable still arrives. Both ends forget their pauses: true if a host's port may send again.
  bool set_down(uint32_t port, bool down);
  void set_rate(uint32_t port, uint32_t mbps);
  void set_loss(uint32_t port, double share);
  // Routes have changed: packets on their way may be where their path no longer leads.
  void rerouted() noexcept { rerouted_ = true; }

  Port& port(uint32_t number) noexcept { return ports_[number]; }
  const std::vector<Port>& ports() const noexcept { return ports_; }
  const Counters& counters() const noexcept { return counters_; }
  Counters& counters() noexcept { return counters_; }
  // Checks that every switch has forgotten every packet: no queue, no accounted byte.
  bool empty() const noexcept;
  // Packets that stand in queues.
  uint64_t waiting() const noexcept;
  // ps that data of the port stood still, up to `end`; of several classes, all of them together.
  int64_t paused_time(uint32_t port, int64_t end) const noexcept;
  // ns that the port was sending.
  double busy_ns(uint32_t port) const noexcept;
  // Packets stand there behind a pause.
  bool stuck(uint32_t port) const noexcept;

  // Several data classes (classes.cpp): before the first packet.
  void use_classes(std::vector<uint8_t> class_of_flow);
  bool classed() const noexcept { return !lanes_.empty(); }
  uint32_t class_of(uint32_t flow) const noexcept { return class_of_flow_[flow]; }
  Lane& lane(uint32_t port, uint32_t c) noexcept { return lanes_[size_t{port} * kClasses + c]; }
  // Classes of which packets wait that may leave.
  uint32_t classes_waiting(uint32_t port) const noexcept;
  uint32_t pick_class(uint32_t port, uint32_t eligible) const noexcept {
    return turns_[port].pick(eligible, settings_.class_weights);
  }
  void charge_class(uint32_t port, uint32_t c, uint32_t bytes) noexcept {
    turns_[port].charge(c, bytes, settings_.class_weights);
  }

 private:
  struct Switch {
    int64_t pool = 0;  // shared bytes: buffer - headrooms - reserves
    int64_t shared_used = 0;
  };
  void make_ports();
  void make_switches();
  void forward_data(Port& out, Packet& packet);
  void depart(Port& out, Packet& packet);
  void serve(uint32_t number);
  void stamp(Port& port, const Packet& packet);
  bool digests(const Port& port) const noexcept {
    return settings_.telemetry.mode == Telemetry::digest && !port.at_host;
  }
  uint32_t digest(Port& port, const Packet& packet);
  void schedule(uint32_t number, Port& port);
  void drop(const Packet& packet);
  void give_back(const Packet& packet);
  bool idle(const Port& port) const noexcept {
    return !port.scheduled && port.free_at <= wheel_.now();
  }

  // Sprayed packets (trim.cpp).
  void forward_sprayed(Packet& packet);
  bool make_room(Port& out, Packet& packet);
  bool cut(Port& out, Packet& packet);
  void end_service(uint32_t number);
  void begin_service(uint32_t number, Port& port);
  void launch(const Port& port, const Packet& packet, int64_t left_at, uint32_t stamp);

  void forward_classed(Packet& packet);
  void serve_classed(uint32_t number);

  // Faults (links.cpp).
  bool lost(const Port& port, const Packet& packet);
  void lose(const Packet& packet);
  uint32_t find_way(const Port& port, const Packet& packet) const;

  // ECN and the shared buffer (buffer.cpp), of a port's one class or of one of several.
  template <class PortOrLane>
  void mark(const PortOrLane& port, Packet& packet);
  template <class PortOrLane>
  int64_t threshold(const PortOrLane& in) const noexcept;
  template <class PortOrLane>
  bool admit(PortOrLane& in, uint32_t bytes) noexcept;
  template <class PortOrLane>
  void release(PortOrLane& in, uint32_t bytes) noexcept;
  template <class PortOrLane>
  void pause_if_needed(PortOrLane& in, uint32_t ingress, uint32_t c);
  template <class PortOrLane>
  void resume_if_possible(PortOrLane& in, uint32_t ingress, uint32_t c);
  template <class PortOrLane>
  uint32_t above_reserve(const PortOrLane& in) const noexcept {
    return in.ingress_bytes > settings_.reserve ? in.ingress_bytes - settings_.reserve : 0;
  }
  void send_pfc(uint32_t port, Event event, uint32_t c);
  template <class PortOrLane>
  void set_paused(PortOrLane& port, bool paused) noexcept;

  const Topology& topology_;
  const Settings settings_;
  EventWheel& wheel_;
  ChunkPool& pool_;
  RouteTable& routes_;
  TelemetryPool& telemetry_;
  Spray& spray_;
  base::Random& random_;
  std::map<uint32_t, std::vector<int64_t>> times_;  // serialisation tables, by rate
  std::vector<Port> ports_;
  std::vector<Switch> switches_;   // by node
  std::vector<Lane> lanes_;        // port x kClasses; empty with one data class
  std::vector<ClassTurns> turns_;  // by port
  std::vector<uint8_t> class_of_flow_;
  Counters counters_;
  std::function<void(const Packet&)> on_drop_;
  bool rerouted_ = false;
};

}  // namespace weft::sim::fabric
