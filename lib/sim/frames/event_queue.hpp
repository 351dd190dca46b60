// SPDX-License-Identifier: BSD-3-Clause
// Virtual time: a priority queue of events. Two events of the same instant run in
// the order in which they were scheduled, so a run depends on its input and on nothing else.
// Nothing here is static: any number of simulations live in one process, each in one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/units.hpp"

namespace weft::sim {

// Receives events. `argument` is that of schedule().
class EventHandler {
 public:
  virtual void on_event(Instant now, uint64_t argument) = 0;

 protected:
  ~EventHandler() = default;
};

class EventQueue {
 public:
  Instant now() const noexcept { return now_; }
  // An instant in the past counts as now. The handler must live until the event has run.
  void schedule(Instant at, EventHandler& handler, uint64_t argument);
  // When the earliest event happens; never() if there is none.
  Instant next() const noexcept {
    return heap_.empty() ? Instant::never() : Instant{heap_.front().at};
  }
  // Moves time to the earliest event and runs it; false if there is none.
  bool step();
  // Runs all events until `until`, inclusive, and moves time there.
  void run_until(Instant until);
  uint64_t executed() const noexcept { return executed_; }

 private:
  struct Event {
    int64_t at;
    uint64_t sequence;
    EventHandler* handler;
    uint64_t argument;
    bool before(const Event& o) const noexcept {
      return at != o.at ? at < o.at : sequence < o.sequence;
    }
  };
  Event pop();

  std::vector<Event> heap_;  // 4-ary: the children of i are 4i + 1 .. 4i + 4
  Instant now_;
  uint64_t sequence_ = 0;
  uint64_t executed_ = 0;
};

}  // namespace weft::sim
