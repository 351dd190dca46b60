// SPDX-License-Identifier: BSD-3-Clause
// Common to all controllers: after each event the rate that the kind computed is clamped to
// [min_rate, line_rate], and the window follows the rate.
#include "lib/congestion/controller.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::congestion {

void Controller::start(const Preset& preset) noexcept {
  WEFT_DCHECK(preset.kind != nullptr && preset.min_rate > 0);
  WEFT_DCHECK(preset.min_rate <= preset.line_rate && preset.base_rtt_ns > 0);
  state_ = State{};
  // No slow start: a flow begins at line rate with an open window (HPCC section 3.2; the authors'
  // simulator does so for every scheme).
  state_.decision.rate = preset.line_rate;
  if (preset.kind->start != nullptr) preset.kind->start(state_, preset);
  clamp_decision(preset);
}

void Controller::on_ack(const Preset& preset, const Ack& ack) noexcept {
  if (preset.kind->on_ack == nullptr) return;
  preset.kind->on_ack(state_, preset, ack);
  clamp_decision(preset);
}

void Controller::on_cnp(const Preset& preset, Instant now) noexcept {
  if (preset.kind->on_cnp == nullptr) return;
  preset.kind->on_cnp(state_, preset, now);
  clamp_decision(preset);
}

void Controller::on_loss(const Preset& preset, const Loss& loss) noexcept {
  if (preset.kind->on_loss == nullptr) return;
  preset.kind->on_loss(state_, preset, loss);
  clamp_decision(preset);
}

void Controller::on_credit(const Preset& preset, const Credit& credit) noexcept {
  if (preset.kind->on_credit == nullptr) return;
  preset.kind->on_credit(state_, preset, credit);
  clamp_decision(preset);
}

void Controller::on_sent(const Preset& preset, uint32_t bytes, Instant now) noexcept {
  if (preset.kind->on_sent == nullptr) return;
  preset.kind->on_sent(state_, preset, bytes, now);
  clamp_decision(preset);
}

void Controller::on_deadline(const Preset& preset, Instant now) noexcept {
  if (preset.kind->on_deadline == nullptr || now < state_.decision.deadline) return;
  preset.kind->on_deadline(state_, preset, now);
  clamp_decision(preset);
}

// Bounds the rate. The window of the +win variants: W0 x rate / line rate in payload bytes, at
// least 1.
void Controller::clamp_decision(const Preset& preset) noexcept {
  Decision& decision = state_.decision;
  decision.rate = preset.clamp(decision.rate);
  WEFT_DCHECK(decision.rate >= preset.min_rate && decision.rate <= preset.line_rate);
  if (!preset.windowed) return;
  const double window = preset.window_bytes * decision.rate / preset.line_rate;
  WEFT_DCHECK(window >= 0);
  decision.window = std::max<uint64_t>(1, static_cast<uint64_t>(window));
}

}  // namespace weft::congestion
