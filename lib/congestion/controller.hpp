// SPDX-License-Identifier: BSD-3-Clause
// What congestion control is to the rest of weft (its vocabulary is public: weft/congestion.hpp): a
// value of at most 128 bytes that gets events (Ack, Loss, a CNP, a deadline) and returns the rate
// and window of its flow. It holds no pointer to its flow, and its parameters lie in a shared
// immutable Preset that each call gets, so one controller runs in a provider, in the simulator and
// in a unit test, and can be copied, stored and compared. Time and randomness are arguments. No
// libm beyond sqrt, no contraction: the same bits from every compiler.
//
// To add a controller: one file in lib/congestion/controllers (timely.cpp is a short one).
#pragma once

#include <cstdint>
#include <type_traits>

#include "lib/base/random.hpp"
#include "weft/congestion.hpp"

namespace weft::congestion {

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
  // Bytes of credit from the receiver; a packet may leave while it is more than 0.
  int64_t credit(const Preset& preset) const noexcept {
    return preset.kind->credit != nullptr ? preset.kind->credit(state_) : kNoCreditNeeded;
  }
  Instant next_deadline() const noexcept { return state_.decision.deadline; }

 private:
  void clamp_decision(const Preset& preset) noexcept;
  State state_;
};
static_assert(sizeof(Controller) == 128 && std::is_trivially_copyable_v<Controller>);

}  // namespace weft::congestion
