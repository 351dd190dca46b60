// SPDX-License-Identifier: BSD-3-Clause
// Congestion controllers of a program's own. A controller is a Kind: a name, parameters and
// functions over a State of 128 bytes, one per flow. Each function gets an event (ACK, CNP, loss,
// credit) and writes the flow's rate and window to state.decision; rates are clamped to [min_rate,
// line rate]. add_controller() registers the name for `cc=NAME` in device strings and in the
// simulator.
//
//   struct Own { uint32_t losses; };
//   void on_loss(State& state, const Preset& preset, const Loss&) {
//     ++own<Own>(state).losses;
//     state.decision.rate /= preset[kGain];
//   }
//
// examples/custom_controller.cpp is a complete one. Functions run under the engine's lock: they
// must not block or allocate.
//
// A shared object with a controller needs no program of your own: WEFT_CONTROLLER at the end of its
// source, and `cc=./mine.so` in a device string or for weft_sim (examples/plugins/tortoise.cpp).
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

// Records of in-band telemetry in a packet: the hops of a fat tree.
inline constexpr size_t kMaxHops = 5;

// In-band telemetry of one switch (HPCC). The counters wrap; use differences only.
struct IntHop {
  uint32_t rate_mbps = 0;    // rate of the egress port
  uint32_t time_ns = 0;      // when transmission of the packet began
  uint32_t sent_bytes = 0;   // bytes sent by the port before
  uint32_t queue_bytes = 0;  // bytes left in its queues
};

// An acknowledgement, with every signal that it may carry.
struct Ack {
  Instant now{};
  Duration rtt{};              // of the acknowledged packet; 0 if unknown
  Duration service{};          // the part of rtt that the receiver's processing took
  uint64_t acked = 0;          // payload bytes acknowledged since the start of the flow
  uint64_t sent = 0;           // payload bytes sent since the start of the flow
  uint64_t in_flight = 0;      // bytes in flight (SRD, where packets arrive in any order)
  uint32_t newly_acked = 0;    // payload bytes that this ACK adds to `acked`
  uint32_t packet_bytes = 0;   // payload of a full packet
  uint32_t marked = 0;         // of the packets acknowledged, those with an ECN mark
  bool retransmitted = false;  // the packet had been retransmitted: rtt is ambiguous
  uint8_t digest = 0;          // hpcc-pint: code of the most utilised hop, 0 if none
  uint16_t path = 0;           // identifies the path: a different number has different hops
  std::span<const IntHop> hops{};
};

// A lost packet.
struct Loss {
  // How it was found: a sequence gap, a trimmed packet, or a retransmission timeout.
  enum class Reason : uint8_t { gap, trimmed, timeout };
  Instant now{};
  uint64_t acked = 0;      // as in Ack
  uint64_t sent = 0;       // as in Ack
  uint64_t in_flight = 0;  // as in Ack, the lost packet included
  Duration rtt{};          // trimmed: from sending until the notification; 0 if unknown
  uint32_t bytes = 0;      // payload of the lost packet
  Reason reason = Reason::gap;
  bool last_hop = false;  // trimmed at the receiver's own link, so no path is congested
  uint8_t digest = 0;     // trimmed: code of the most utilised hop, as in Ack; 0 if none
  uint16_t path = 0;      // as in Ack
};

// Credit granted by the receiver.
struct Credit {
  Instant now{};
  uint32_t bytes = 0;
};

// Values of Decision::window and Kind::credit for controllers without such a limit.
inline constexpr uint64_t kNoWindow = UINT64_MAX;
// See kNoWindow.
inline constexpr int64_t kNoCreditNeeded = INT64_MAX;

// The output of a controller: the flow sends at `rate`, only while the payload in flight is less
// than `window`, and on_deadline() is called at `deadline`.
struct Decision {
  double rate = 0;  // bits per second
  uint64_t window = kNoWindow;
  Instant deadline = Instant::never();
};

// The state of one flow. Each kind overlays `own` with its own struct: see own() below.
struct alignas(8) State {
  Decision decision{};
  std::array<std::byte, 104> own{};
};
static_assert(sizeof(State) == 128 && std::is_trivially_copyable_v<State>);

// The property of a network that replaces the default of a parameter if it is known.
enum class Follows : uint8_t {
  nothing,
  packet_bytes,    // a full packet on the wire
  payload_bytes,   // the payload of a full packet
  drops,           // 1 if full queues drop packets instead of trimming them
  software_hosts,  // 1 if the hosts are software, whose processing delay varies
};

// The source of a default that no paper, specification or program has.
inline constexpr std::string_view kNoSource = "no source";

// A parameter: its key, its unit, its default, where the default is from and what differs there.
// `weft_sim keys NAME` prints them.
struct Parameter {
  std::string_view name{};
  std::string_view unit{};
  double value{};
  std::string_view source{};  // a paper with its section, a program with its symbol, or kNoSource
  Follows follows = Follows::nothing;
  std::string_view differs{};  // from the source; of kNoSource: why this value
};

// The input that a controller needs. A device or network without that signal refuses it.
enum class Signal : uint8_t { none, ecn, delay, telemetry, digest, credit };

// ECN marking of switches (RED), thresholds in proportion to the port's rate: probability 0 up to
// kmin, rising to pmax at kmax, 1 above kmax.
struct Marking {
  double kmin_bytes_per_gbps = 4000;
  double kmax_bytes_per_gbps = 16000;
  double pmax = 0.2;
};

// Parameters of a kind.
inline constexpr size_t kMaxParameters = 20;
struct Preset;

// A congestion controller: a constant of its properties and functions. Events whose function is
// null are ignored.
struct Kind {
  std::string_view name{};   // of [a-z0-9-], for cc=
  std::string_view what{};   // one line for listings
  std::string_view paper{};  // that describes it: authors, title, where and when
  Signal signal = Signal::none;
  bool windowed = false;       // always has a window of a BDP, as others with the suffix +win
  bool moves_pending = false;  // a new rate also reschedules the packet that is being paced
  bool sprayed = false;        // one window over many paths (SRD); counts bytes on the wire
  bool echoes_marks = false;   // needs Ack::marked: acknowledgements must echo ECN marks
  // A PAUSE does not stop ACKs at the hosts even if the flow has a window (simulator).
  bool control_acks = false;
  size_t cnp_interval = 0;         // index of the parameter that spaces CNPs, in us; 0: none
  Marking marking{};               // default ECN thresholds of switches (simulator)
  std::string_view digest_form{};  // the kind to use where packets have room for a digest only
  std::array<std::string_view, 2> parts{};  // kinds whose parameter names also set this one's
  std::span<const Parameter> parameters{};  // the first one is always min_rate_mbps
  // Initialises the state of a flow.
  void (*start)(State&, const Preset&) = nullptr;
  // An acknowledgement was received.
  void (*on_ack)(State&, const Preset&, const Ack&) = nullptr;
  // A CNP was received.
  void (*on_cnp)(State&, const Preset&, Instant) = nullptr;
  // A packet was lost.
  void (*on_loss)(State&, const Preset&, const Loss&) = nullptr;
  // The receiver granted credit.
  void (*on_credit)(State&, const Preset&, const Credit&) = nullptr;
  // A packet was sent.
  void (*on_sent)(State&, const Preset&, uint32_t bytes, Instant) = nullptr;
  // Decision::deadline has passed.
  void (*on_deadline)(State&, const Preset&, Instant) = nullptr;
  // Credit left in bytes; null: the controller needs no credit of the receiver.
  int64_t (*credit)(const State&) = nullptr;
};

// The index of min_rate_mbps in the parameters of every kind.
inline constexpr size_t kMinRate = 0;

// A controller with the values of its parameters, for flows of one line rate in one network.
// Immutable (lib/congestion/registry.hpp creates it); shared by any number of flows, which it must
// outlive.
struct Preset {
  const Kind* kind = nullptr;
  bool windowed = false;    // Kind::windowed, or the suffix +win
  double line_rate = 0;     // bits per second
  double min_rate = 0;      // bits per second
  double base_rtt_ns = 0;   // T: slightly above the largest unloaded RTT of the network
  double window_bytes = 0;  // T x line rate: the window at line rate
  std::array<double, kMaxParameters> values{};

  // The value of a parameter of the kind, by index.
  double operator[](size_t parameter) const noexcept { return values[parameter]; }
  // `rate` limited to [min_rate, line_rate]; NaN becomes min_rate.
  double clamp(double rate) const noexcept {
    return rate > min_rate ? (rate < line_rate ? rate : line_rate) : min_rate;
  }
};

// Counts changes of this header that a shared object sees.
inline constexpr uint32_t kControllerInterface = 1;

// What a shared object exports as `weft_controller`, by WEFT_CONTROLLER below.
struct ExportedController {
  uint32_t interface_number = kControllerInterface;  // keeps its place: it is read first
  const Kind* kind = nullptr;
};

// The part of the state that belongs to the kind, as its struct.
template <class Own>
Own& own(State& state) noexcept {
  static_assert(sizeof(Own) <= sizeof(State::own) && alignof(Own) <= 8);
  static_assert(std::is_trivially_copyable_v<Own>);
  return *reinterpret_cast<Own*>(state.own.data());
}
// The same, read-only.
template <class Own>
const Own& own(const State& state) noexcept {
  return own<Own>(const_cast<State&>(state));
}

}  // namespace congestion

// Registers a controller for cc=NAME, and with the suffix +win for the same with a window of a BDP.
// `kind` and what it points to must live as long as the process. Errors: invalid_argument (the name
// exists already or is not of [a-z0-9-], or the first parameter is not min_rate_mbps), no_memory
// (too many kinds). Any thread.
Result<void> add_controller(const congestion::Kind& kind);

}  // namespace weft

// At the end of a shared object's source, outside of namespaces: `KIND`, a congestion::Kind, is the
// controller that cc=./FILE.so loads. The object is compiled with this header and links nothing of
// weft:  c++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared tortoise.cpp -o tortoise.so
// It is never unloaded. The controller then also goes by its own name, and so do its parameters.
#define WEFT_CONTROLLER(KIND)                                         \
  extern "C" {                                                        \
  extern const ::weft::congestion::ExportedController weft_controller \
      __attribute__((visibility("default")));                         \
  const ::weft::congestion::ExportedController weft_controller = {    \
      ::weft::congestion::kControllerInterface, &(KIND)};             \
  }                                                                   \
  static_assert(true, "takes the semicolon")
