// SPDX-License-Identifier: BSD-3-Clause
// What congestion control is to the rest of weft: a value of at most 128 bytes that is told what
// happened (Ack, Loss, a CNP, a deadline) and says how fast and how far its flow may send. It holds
// no pointer to its flow, and its parameters lie in a shared immutable Preset that each call gets,
// so one controller runs in a provider, in the simulator and in a unit test, and can be copied,
// stored and compared. Time and randomness are arguments. No libm beyond sqrt, no contraction: the
// same bits from every compiler.
//
// To add a controller: one file that defines a Kind (look at timely.cpp) and a row in registry.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "lib/base/random.hpp"
#include "weft/units.hpp"

namespace weft::congestion {

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

// A parameter: its key, its unit, its default and where that comes from.
struct Parameter {
  std::string_view name;
  std::string_view unit;
  double value;
  std::string_view source;
};

// What a controller must be fed with. A path that cannot is not for it.
enum class Signal : uint8_t { none, ecn, delay, telemetry, digest, credit };

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

// The controller of one flow: a State and the calls. `preset` is the same at every call.
class Controller {
 public:
  void start(const Preset& preset) noexcept;
  void on_ack(const Preset& preset, const Ack& ack) noexcept;
  void on_cnp(const Preset& preset, Instant now) noexcept;
  void on_loss(const Preset& preset, const Loss& loss) noexcept;
  void on_credit(const Preset& preset, const Credit& credit) noexcept;
  void on_sent(const Preset& preset, uint32_t bytes, Instant now) noexcept;
  // Call at or after next_deadline(); earlier it does nothing.
  void on_deadline(const Preset& preset, Instant now) noexcept;

  double rate() const noexcept { return state_.decision.rate; }
  uint64_t window() const noexcept { return state_.decision.window; }
  // Bytes that the receiver lets it send; a packet may leave while it is more than 0.
  int64_t credit(const Preset& preset) const noexcept {
    return preset.kind->credit != nullptr ? preset.kind->credit(state_) : kNoCreditNeeded;
  }
  Instant next_deadline() const noexcept { return state_.decision.deadline; }

 private:
  void settle(const Preset& preset) noexcept;
  State state_;
};
static_assert(sizeof(Controller) == 128 && std::is_trivially_copyable_v<Controller>);

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

}  // namespace weft::congestion
