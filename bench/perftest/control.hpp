// SPDX-License-Identifier: BSD-3-Clause
// Control messages between the two processes, apart from the measured traffic: barriers, the end of
// a timed run, abort, and each side's figures. SENDs on a queue pair of its own, which also detects
// a dead peer.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "weft/weft.hpp"

namespace weft::bench {

// True after SIGINT or SIGTERM, which handle_interrupts() catches.
bool interrupted() noexcept;
// The error of a function that gives up because of such a signal.
Error interruption();
void handle_interrupts();

struct ControlMessage {
  enum class Kind : uint32_t { barrier = 1, stop = 2, abort = 3 };
  Kind kind = Kind::barrier;
  uint32_t phase = 0;
  uint64_t count = 0;       // barrier: messages completed; stop: messages sent
  uint64_t mismatches = 0;  // wrong bytes
  double average = 0;       // bytes per second
  double peak = 0;
  double message_rate = 0;
};

class Control {
 public:
  // `events`: wait for completion events instead of polling.
  static Result<std::unique_ptr<Control>> create(const Device& device, const ProtectionDomain& pd,
                                                 bool events);
  const QueuePair& qp() const noexcept { return qp_; }

  // Waits until the peer is at the same barrier and has acknowledged this side's message, so that
  // either side may end after it; returns the peer's message. Errors: disconnected (the peer died
  // or aborted), bad_state (interrupted).
  Result<ControlMessage> barrier(ControlMessage message);
  // Notifies the peer that a timed run has ended after `count` messages, or that this side aborts.
  void stop(uint64_t count) noexcept;
  void abort() noexcept;
  // Polls for a message and sends keepalives; returns an error if the run has to end.
  Result<void> check() noexcept;
  // The count of a received stop message; resets it.
  std::optional<uint64_t> take_stop() noexcept;

 private:
  Control(CompletionQueue cq, bool events) : cq_(std::move(cq)), events_(events) {}
  Result<void> prepare(const ProtectionDomain& pd);
  bool post_receive(uint64_t slot) noexcept;
  bool send(const ControlMessage& message) noexcept;
  void probe() noexcept;
  Error peer_lost() const;
  void on_completion(const Completion& completion) noexcept;

  static constexpr size_t kSlots = 8;
  CompletionQueue cq_;
  QueuePair qp_;
  std::array<ControlMessage, 2 * kSlots> memory_{};  // receive slots, then send slots
  MemoryRegion region_;
  bool events_;
  uint64_t sent_ = 0;
  uint64_t acknowledged_ = 0;  // of sent_, by the peer
  uint32_t phase_ = 0;
  uint64_t next_probe_ = 0;
  bool broken_ = false;               // connection lost
  Status failure_ = Status::success;  // of the request that showed it
  bool aborted_ = false;              // the peer has aborted
  // The peer can be one barrier ahead, so two messages are kept, by the last bit of their phase.
  std::array<std::optional<ControlMessage>, 2> at_barrier_;
  std::optional<uint64_t> stop_count_;
};

}  // namespace weft::bench
