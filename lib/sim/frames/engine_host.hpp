// SPDX-License-Identifier: BSD-3-Clause
// Drives one engine over one port in virtual time, as lib/driver does in real time: a turn receives
// frames, runs the engine's timers and transmits. Turns happen at arrivals, at deadlines and on
// kick(), at least `turn` apart, as a processor would take.
#pragma once

#include <functional>
#include <vector>

#include "lib/sim/frames/event_queue.hpp"
#include "lib/transport/machine.hpp"

namespace weft::sim {

struct EngineHostOptions {
  Duration turn = Duration::from_ns(100);  // > 0: the least time between two turns
  uint32_t burst = 64;                     // frames fetched per turn
};

class EngineHost final : public EventHandler {
 public:
  EngineHost(EventQueue& events, transport::Port& port, transport::Machine& engine,
             const EngineHostOptions& options);

  // Schedules a turn: after a post, or on arrival of a frame.
  void kick();
  // Called at the end of each turn: the application.
  void after_turn(std::function<void(Instant)> call) { after_turn_ = std::move(call); }
  // True while a turn is scheduled.
  bool pending() const noexcept { return !wakes_at_.is_never(); }

  static constexpr uint64_t kArrival = 0;  // the argument of a host's notification
  void on_event(Instant now, uint64_t argument) override;

 private:
  void wake(Instant at);
  void take_turn(Instant now);
  bool send(Instant now);

  EventQueue& events_;
  transport::Port& port_;
  transport::Machine& engine_;
  EngineHostOptions options_;
  std::function<void(Instant)> after_turn_;
  std::vector<transport::Frame> received_;
  std::vector<transport::TxFrame> sending_;
  size_t sending_begin_ = 0, sending_end_ = 0;  // frames that the port has not accepted yet
  std::vector<pollfd> descriptors_;
  Instant wakes_at_ = Instant::never();
  Instant next_turn_;  // earliest time of the next turn
  uint64_t ticket_ = 0;
};

}  // namespace weft::sim
