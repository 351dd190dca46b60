// SPDX-License-Identifier: BSD-3-Clause
// Congestion control of your own. A controller is a Kind: a name, parameters and functions over a
// State of 128 bytes that belongs to one flow and holds no pointer to it. Each function is told
// what happened and says in state.decision how fast and how far the flow may send; what it forgets
// to bound is put between the least rate and the line's. add_controller() makes the name good for
// `cc=NAME` in device strings and in the simulator.
//
//   struct Own { uint32_t losses; };
//   void on_loss(State& state, const Preset& preset, const Loss&) {
//     ++own<Own>(state).losses;
//     state.decision.rate /= preset[kGain];
//   }
//
// examples/custom_controller.cpp is a whole one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft {
namespace congestion {

inline constexpr size_t kMaxHops = 5;  // of in-band telemetry: what a fat tree has

// One switch's record in a packet. The counters wrap; only differences count.
struct IntHop {
  uint32_t rate_mbps = 0;    // of the port
  uint32_t time_ns = 0;      // when the packet began to leave
  uint32_t sent_bytes = 0;   // what the port had sent before
  uint32_t queue_bytes = 0;  // what was left behind in its queues
};

// An acknowledgement, with every signal that it may carry; a controller takes what it needs.
struct Ack {
  Instant now;
  Duration rtt;               // of the acknowledged packet; 0 if unknown
  Duration service;           // the part of it that the receiver took
  uint64_t acked = 0;         // payload bytes acknowledged since the start of the flow
  uint64_t sent = 0;          // payload bytes sent since the start of the flow
  uint64_t in_flight = 0;     // bytes on their way, where they may arrive in any order
  uint32_t newly_acked = 0;   // payload bytes that this one adds
  uint32_t packet_bytes = 0;  // payload of a full packet
  uint32_t marked = 0;        // packets that met ECN, of those it acknowledges
  bool retransmitted = false;
  uint8_t digest = 0;  // hpcc-pint: the code of the worst hop, 0 if none
  uint16_t path = 0;   // another number is another way, whose hops are others
  std::span<const IntHop> hops;
};

struct Loss {
  enum class Reason : uint8_t { gap, trimmed, timeout };
  Instant now;
  uint64_t acked = 0;
  uint64_t sent = 0;
  uint64_t in_flight = 0;  // as in Ack, the lost packet included
  Duration rtt;            // trimmed: until it was told; 0 if unknown
  uint32_t bytes = 0;
  Reason reason = Reason::gap;
  bool last_hop = false;  // trimmed at the receiver's own link: the paths are not to blame
  uint8_t digest = 0;     // trimmed: the code of the worst hop, as in Ack; 0 if none
  uint16_t path = 0;
};

// The receiver's leave to send more.
struct Credit {
  Instant now;
  uint32_t bytes = 0;
};

inline constexpr uint64_t kNoWindow = UINT64_MAX;
inline constexpr int64_t kNoCreditNeeded = INT64_MAX;

// What a controller decides. Sender's rules: leave at `rate`, and only while the payload in flight
// is less than `window`; call on_deadline() at `deadline`.
struct Decision {
  double rate = 0;  // bits per second
  uint64_t window = kNoWindow;
  Instant deadline = Instant::never();
};

// The state of any controller. Each kind lays its own struct over `own`.
struct alignas(8) State {
  Decision decision;
  std::array<std::byte, 104> own{};
};
static_assert(sizeof(State) == 128 && std::is_trivially_copyable_v<State>);

// The property of a network that replaces a parameter's default where it is known.
enum class Follows : uint8_t {
  nothing,
  packet_bytes,    // a full packet on the wire
  payload_bytes,   // the payload of a full packet
  drops,           // 1 if full queues drop packets instead of trimming them
  software_hosts,  // 1 if the hosts are processes, whose own delay varies
};

// A parameter: its key, its unit, its default and the source of the default.
struct Parameter {
  std::string_view name;
  std::string_view unit;
  double value;
  std::string_view source;
  Follows follows = Follows::nothing;
};

// The input that a controller needs. A device or network that cannot deliver it refuses the
// controller.
enum class Signal : uint8_t { none, ecn, delay, telemetry, digest, credit };

// ECN marking at switches, in proportion to the rate of the port: no packet is marked below kmin,
// the share pmax at kmax, every packet above kmax.
struct Marking {
  double kmin_bytes_per_gbps = 4000;
  double kmax_bytes_per_gbps = 16000;
  double pmax = 0.2;
};

inline constexpr size_t kMaxParameters = 20;
struct Preset;

// A controller's functions and facts: one constant per canonical name. A function that is null is
// an event that it ignores.
struct Kind {
  std::string_view name;
  std::string_view what;
  Signal signal = Signal::none;
  bool windowed = false;       // has the BDP window by definition, as with the suffix +win
  bool moves_pending = false;  // a new rate also moves the time of the next packet
  bool sprayed = false;        // one window over many paths; bytes are those on the wire
  bool echoes_marks = false;   // needs Ack::marked: acknowledgements must echo ECN marks
  // Acknowledgements travel in the control class even if the flow has a window (simulator).
  bool control_acks = false;
  size_t cnp_interval = 0;         // index of the parameter that spaces CNPs, in us; 0: none
  Marking marking{};               // the switches' thresholds unless the user sets them (simulator)
  std::string_view digest_form{};  // the kind to use where only a digest fits into a packet
  std::array<std::string_view, 2> parts{};  // kinds whose parameter names also set this one's
  std::span<const Parameter> parameters{};  // the first one is always min_rate_mbps
  void (*start)(State&, const Preset&) = nullptr;
  void (*on_ack)(State&, const Preset&, const Ack&) = nullptr;
  void (*on_cnp)(State&, const Preset&, Instant) = nullptr;
  void (*on_loss)(State&, const Preset&, const Loss&) = nullptr;
  void (*on_credit)(State&, const Preset&, const Credit&) = nullptr;
  void (*on_sent)(State&, const Preset&, uint32_t bytes, Instant) = nullptr;
  void (*on_deadline)(State&, const Preset&, Instant) = nullptr;
  int64_t (*credit)(const State&) = nullptr;  // null: it needs no leave of the receiver
};

inline constexpr size_t kMinRate = 0;  // the index of min_rate_mbps in every kind's parameters

// A controller with its parameters, for flows of one line rate in one network. Immutable once made
// (registry.hpp); shared by any number of flows; must outlive them.
struct Preset {
  const Kind* kind = nullptr;
  bool windowed = false;    // of its kind, or by the suffix +win
  double line_rate = 0;     // bits per second
  double min_rate = 0;      // bits per second
  double base_rtt_ns = 0;   // T: one for the whole network, a bit above its largest unloaded RTT
  double window_bytes = 0;  // T x line rate: the window at line rate
  std::array<double, kMaxParameters> values{};

  double operator[](size_t parameter) const noexcept { return values[parameter]; }
  double clamp(double rate) const noexcept {
    // Written so that a NaN becomes the least rate.
    return rate > min_rate ? (rate < line_rate ? rate : line_rate) : min_rate;
  }
};

// A kind's own view of the state.
template <class Own>
Own& own(State& state) noexcept {
  static_assert(sizeof(Own) <= sizeof(State::own) && alignof(Own) <= 8);
  static_assert(std::is_trivially_copyable_v<Own>);
  return *reinterpret_cast<Own*>(state.own.data());
}
template <class Own>
const Own& own(const State& state) noexcept {
  return own<Own>(const_cast<State&>(state));
}

}  // namespace congestion

// From now on `cc=` knows the kind by its name, and by its name with the suffix +win, which adds a
// window of a BDP. The kind and what it points to stay for as long as the process. Fails on a name
// that is taken or is not of [a-z0-9-], on parameters that do not begin with min_rate_mbps, and
// when there are too many kinds.
Result<void> add_controller(const congestion::Kind& kind);

}  // namespace weft
