// SPDX-License-Identifier: BSD-3-Clause
// The conversation of the two processes beside the measured traffic: meeting points, the end of a
// timed run, an abort, and the figures each side has. It is SENDs on a queue pair of its own, so
// that it needs nothing that the library does not have, and a peer that died is noticed.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "weft/weft.hpp"

namespace weft::bench {

// True once Ctrl-C was pressed. handle_interrupts() makes it so instead of ending the process.
bool interrupted() noexcept;
void handle_interrupts();

struct ControlMessage {
  enum class Kind : uint32_t { barrier = 1, stop = 2, abort = 3 };
  Kind kind = Kind::barrier;
  uint32_t phase = 0;
  uint64_t count = 0;       // barrier: messages done; stop: messages there were
  uint64_t mismatches = 0;  // bytes that were wrong
  double average = 0;       // bytes per second
  double peak = 0;
  double message_rate = 0;
};

class Control {
 public:
  // `events`: sleep while waiting instead of polling.
  static Result<std::unique_ptr<Control>> create(const Device& device, const ProtectionDomain& pd,
                                                 bool events);
  const QueuePair& qp() const noexcept { return qp_; }

  // Waits until the peer is at the same barrier and has our message too, so that either side may
  // end after it; returns the peer's. The engine runs meanwhile.
  // Errors: disconnected (the peer died or gave up), bad_state (interrupted).
  Result<ControlMessage> barrier(ControlMessage message);
  // Tells the peer that a timed run has ended after `count` messages, or that we give up.
  void stop(uint64_t count) noexcept;
  void abort() noexcept;
  // Looks for a message without waiting, and now and then whether the peer is there at all: whether
  // the run has to end with an error.
  Result<void> check() noexcept;
  // The count of a stop message, once it came.
  std::optional<uint64_t> take_stop() noexcept;

 private:
  Control(CompletionQueue cq, bool events) : cq_(std::move(cq)), events_(events) {}
  Result<void> prepare(const ProtectionDomain& pd);
  bool post_receive(uint64_t slot) noexcept;
  bool send(const ControlMessage& message) noexcept;
  void probe() noexcept;
  void take(const Completion& completion) noexcept;

  static constexpr size_t kSlots = 8;
  CompletionQueue cq_;
  QueuePair qp_;
  std::array<ControlMessage, 2 * kSlots> memory_{};  // receive slots, then send slots
  MemoryRegion region_;
  bool events_;
  uint64_t sent_ = 0;
  uint64_t acknowledged_ = 0;  // of those, by the peer
  uint32_t phase_ = 0;
  uint64_t next_probe_ = 0;
  bool broken_ = false;   // the peer is gone
  bool aborted_ = false;  // the peer gave up
  // The peer can be one barrier ahead, so two are kept, by the last bit of their phase.
  std::array<std::optional<ControlMessage>, 2> at_barrier_;
  std::optional<uint64_t> stop_;
};

}  // namespace weft::bench
