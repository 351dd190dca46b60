// SPDX-License-Identifier: BSD-3-Clause
// A controller whose functions are a callback of the caller's. Flows are numbered as they start,
// which is the order that the list of a scenario has: the state of a flow holds its number.
#pragma once

#include <string>

#include "lib/sim/run/simulation.hpp"
#include "weft/congestion.hpp"
#include "weft/sim.h"

namespace weft::c {

class CalledController {
 public:
  // Errors: invalid_argument (no such signal).
  static Result<congestion::Signal> signal_of(const char* name);
  CalledController(const weft_sim_run_options& options, congestion::Signal signal);
  ~CalledController();
  CalledController(const CalledController&) = delete;
  CalledController& operator=(const CalledController&) = delete;

  const congestion::Kind& kind() const noexcept { return kind_; }
  // Its member `stop` ends the run after a failure.
  sim::flow::Progress& progress() noexcept { return progress_; }
  bool failed() const noexcept { return progress_.stop; }

 private:
  struct Calls;  // the functions of the kind

  void call(weft_sim_event event, congestion::State& state, const congestion::Preset& preset);

  const weft_sim_callback callback_;
  void* const context_;
  CalledController* const outer_;  // a callback may run a simulation itself
  const std::string name_;
  uint32_t started_ = 0;  // flows
  congestion::Kind kind_;
  sim::flow::Progress progress_;
};

}  // namespace weft::c
