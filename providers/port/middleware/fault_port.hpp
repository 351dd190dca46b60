// SPDX-License-Identifier: BSD-3-Clause
// A port that loses, repeats, reorders, delays, damages and marks frames, as a bad network would,
// from a seed. It treats the frames that are sent and those that are received alike (FaultOptions::
// direction), so one end with faults is enough.
//
// Damage must be found, so frames of this port always carry an ICRC: over a port without one
// (shared memory) both ends need the fault port. Trains are taken apart, because their frames part
// ways.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "providers/port/middleware/fault_lane.hpp"
#include "providers/port/middleware/fault_timeline.hpp"
#include "providers/port/middleware/wrapping_port.hpp"

namespace weft::middleware {

using FaultClock = std::function<Instant()>;
// The time since some moment that does not change while the process lives.
Instant monotonic_clock();

class FaultPort final : public WrappingPort {
 public:
  // Wraps `inner`. `clock`: for delays, read once per call that needs it.
  FaultPort(std::unique_ptr<transport::Port> inner, const FaultOptions& options,
            FaultClock clock = monotonic_clock);
  // For the table of middleware: keys without "fault.", and `timeline`.
  static Result<std::unique_ptr<transport::Port>> wrap(
      std::unique_ptr<transport::Port> inner,
      const std::vector<std::pair<std::string, std::string>>& options);

  // Other faults from now on; what is held back stays due when it was. The seed is not used again.
  void change(const FaultOptions& options) noexcept { options_ = options; }
  // What fault.timeline names; the owner of the device does it at its time. Empty: nothing.
  const FaultTimeline& timeline() const noexcept { return timeline_; }
  // How often a fault happened, both directions.
  uint64_t operator[](Fault fault) const noexcept { return sent_[fault] + received_[fault]; }

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  // False while a frame is held back: no descriptor becomes readable when it is due.
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  static constexpr size_t kMaxBurst = 256;  // frames received at once
  bool flush(Instant now) noexcept;
  void hold_sent(const FaultLane::Fate& fate, const transport::TxFrame& frame,
                 Instant now) noexcept;
  void hold_received(const FaultLane::Fate& fate, const transport::Frame& frame,
                     Instant now) noexcept;

  transport::Capabilities capabilities_;
  FaultOptions options_;
  FaultTimeline timeline_;
  FaultClock clock_;
  FaultLane sent_;
  FaultLane received_;
  std::vector<transport::Frame> lent_;  // by the inner port
  std::vector<HeldFrame*> lent_held_;   // by us
};

}  // namespace weft::middleware
