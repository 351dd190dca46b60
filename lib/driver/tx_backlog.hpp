// SPDX-License-Identifier: BSD-3-Clause
// The frames that a machine has built and its port has not taken yet (backpressure: a full socket
// buffer or ring). They keep pointing into the machine's frame builder, so the machine builds no
// more until the port has taken all of them.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/base/check.hpp"
#include "lib/transport/machine.hpp"

namespace weft::driver {

// Under the driver's lock.
class TxBacklog {
 public:
  // `burst`: frames that the machine builds at once, Capabilities::burst of its port.
  explicit TxBacklog(size_t burst) : burst_(burst), frames_(new transport::TxFrame[burst]) {}

  bool empty() const noexcept { return begin_ == end_; }
  // Moves frames from `machine` to `port` until the machine has none, at most kMaxBursts bursts.
  // False: the port is full and frames are left.
  // Inline: it runs in every turn.
  bool flush(transport::Machine& machine, transport::Port& port, Instant now) noexcept {
    for (int round = 0; round < kMaxBursts; ++round) {
      if (begin_ == end_) {
        const size_t made = machine.transmit({frames_.get(), burst_}, now);
        WEFT_DCHECK(made <= burst_);
        if (made == 0) return true;
        begin_ = 0;
        end_ = made;
      }
      const size_t taken = port.transmit({frames_.get() + begin_, end_ - begin_});
      WEFT_DCHECK(taken <= end_ - begin_);
      begin_ += taken;
      if (begin_ != end_) return false;
      if (!machine.has_active()) return true;  // a delayed ACK leaves in the next turn
    }
    return true;
  }
  // Sends the acknowledgements that `machine` delays for later turns, if it has nothing else to
  // send. After a turn or flush(), behind which no turn may come.
  void flush_delayed_acks(transport::Machine& machine, transport::Port& port) noexcept {
    for (int turn = 0; turn < kAckTurns && empty(); ++turn) {
      if (!machine.wants_transmit() || machine.has_active()) return;
      flush(machine, port, machine.time());
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

  const size_t burst_;
  const std::unique_ptr<transport::TxFrame[]> frames_;
  size_t begin_ = 0, end_ = 0;  // the frames left: begin_ <= end_ <= burst_
};

}  // namespace weft::driver
