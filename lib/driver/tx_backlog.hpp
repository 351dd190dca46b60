// SPDX-License-Identifier: BSD-3-Clause
// The frames that a machine has built and its port has not taken yet (backpressure: a full socket
// buffer or ring). They keep pointing into the machine's frame builder, so the machine builds no
// more until the port has taken all of them.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/base/check.hpp"
#include "lib/driver/record/flight_recorder.hpp"
#include "lib/transport/machine.hpp"

namespace weft::driver {

// Under the driver's lock.
class TxBacklog {
 public:
  // All three outlive it. `recorder` records what the port took.
  TxBacklog(transport::Machine& machine, transport::Port& port, FlightRecorder& recorder)
      : machine_(machine),
        port_(port),
        recorder_(recorder),
        burst_(port.capabilities().burst),
        frames_(new transport::TxFrame[burst_]) {}

  bool empty() const noexcept { return begin_ == end_; }
  // Moves frames from the machine to the port until the machine has none, at most kMaxBursts
  // bursts. False: the port is full and frames are left.
  // Inline: it runs in every turn.
  bool flush(Instant now) noexcept {
    for (int round = 0; round < kMaxBursts; ++round) {
      if (begin_ == end_) {
        const size_t made = machine_.transmit({frames_.get(), burst_}, now);
        WEFT_DCHECK(made <= burst_);
        if (made == 0) return true;
        begin_ = 0;
        end_ = made;
      }
      const size_t taken = port_.transmit({frames_.get() + begin_, end_ - begin_});
      WEFT_DCHECK(taken <= end_ - begin_);
      if (taken != 0) recorder_.sent({frames_.get() + begin_, taken}, now);
      begin_ += taken;
      if (begin_ != end_) return false;
      if (!machine_.has_active()) return true;  // a delayed ACK leaves in the next turn
    }
    return true;
  }
  // Sends the acknowledgements that the machine delays for later turns, if it has nothing else to
  // send. After a turn or flush(), behind which no turn may come.
  void flush_delayed_acks() noexcept {
    for (int turn = 0; turn < kAckTurns && empty(); ++turn) {
      if (!machine_.wants_transmit() || machine_.has_active()) return;
      flush(machine_.time());
    }
  }
  // Drops frames whose spans lie in [base, base + size). Their key is removed already, so the
  // machine will not build them again.
  void drop_memory(const void* base, size_t size) noexcept;
  // Drops frames that name `path`, which is about to be destroyed. All frames of a train have one
  // path, so trains go whole.
  void drop_path(const transport::Path& path) noexcept;

 private:
  static constexpr int kMaxBursts = 8;
  static constexpr int kAckTurns = 20;  // no acknowledgement is delayed for longer (ack_delay.hpp)
  template <class Matches>
  void drop_if(Matches matches) noexcept;

  transport::Machine& machine_;
  transport::Port& port_;
  FlightRecorder& recorder_;
  const size_t burst_;  // frames that the machine builds at once, Capabilities::burst of its port
  const std::unique_ptr<transport::TxFrame[]> frames_;
  size_t begin_ = 0, end_ = 0;  // the frames left: begin_ <= end_ <= burst_
};

}  // namespace weft::driver
