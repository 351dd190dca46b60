// SPDX-License-Identifier: BSD-3-Clause
// The interface of a protocol machine to a driver or the simulator: receive, transmit, expire and
// their deadline, the key table, counters and events. The engines of RoCE and SRD are machines;
// they share no transport state.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "lib/base/random.hpp"
#include "lib/memory/key_table.hpp"
#include "lib/transport/completion_queue.hpp"
#include "lib/transport/counters.hpp"
#include "lib/transport/frame_builder.hpp"
#include "lib/transport/icrc_watch.hpp"
#include "lib/transport/incidents.hpp"
#include "lib/transport/port.hpp"

namespace weft::transport {

// Limits of a device's objects.
struct Limits {
  uint32_t max_qp = 65536;
  uint32_t max_qp_wr = 1u << 20;
  uint32_t max_sge = 32;
  uint32_t max_inline = 1024;
  uint32_t max_cqe = 1u << 22;
  uint32_t max_rd_atomic = 128;
  uint64_t max_message = 1ull << 31;
};

// Single-threaded: the caller holds the driver's lock. Work per call is bounded, a spurious call is
// a no-op, `now` is read once per burst.
class Machine {
 public:
  Machine(Port& port, base::SecureRandom& random);
  virtual ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Processes received frames.
  virtual void receive(std::span<const Frame> frames, Instant now) noexcept = 0;
  // Fills up to frames.size() frames to send; their memory stays valid until the next transmit().
  virtual size_t transmit(std::span<TxFrame> frames, Instant now) noexcept = 0;
  // Runs timers whose deadline has passed.
  virtual void expire(Instant now) noexcept = 0;
  // A peer is gone, and something says so: requests to it end. Those of peers to which none is
  // outstanding are not affected.
  virtual void lose_peer(const LostPeer& lost, Instant now) noexcept { (void)lost, (void)now; }
  // When expire() must be called: at the first deadline or earlier.
  Instant next_deadline() const noexcept { return next_deadline_; }
  // True if transmit() would make a frame now, delayed acknowledgements included.
  virtual bool wants_transmit() const noexcept = 0;
  // True if it has more to send than delayed acknowledgements.
  virtual bool has_active() const noexcept = 0;
  // True if a request of more than kBulk bytes is queued, which needs no later posts to fill a
  // train.
  bool has_bulk() const noexcept { return bulk_posted_; }
  // True once after an armed completion queue fired, or began to hold its event back until due().
  bool take_fired() noexcept { return std::exchange(fired_, false); }
  // True if take_fired() or take_events() would return true.
  bool has_pending_events() const noexcept { return fired_ || has_new_events_; }

  memory::KeyTable& keys() noexcept { return keys_; }
  const Counters& counters() const noexcept { return counters_; }
  // True once after a counter of exceptions grew.
  bool take_exceptions() noexcept { return counters_.take_exceptions(); }
  const Capabilities& capabilities() const noexcept { return capabilities_; }
  // Moves the oldest asynchronous event to `event`; false if there is none.
  bool next_event(AsyncEvent& event) noexcept;
  bool has_event() const noexcept { return !events_.empty(); }
  // True once after an incident: an event, or a request that failed.
  bool take_events() noexcept { return has_new_events_ && std::exchange(has_new_events_, false); }
  Incidents& incidents() noexcept { return incidents_; }
  // The next peer whose packets all fail the ICRC, each once. After take_events().
  std::optional<Gid> next_failing_peer() noexcept { return icrc_watch_.next_report(); }

  // Sets the time of completions, for queues with timestamps or moderation. Before each call.
  void set_time(Instant now) noexcept { time_ = now; }
  Instant time() const noexcept { return time_; }

  // The rest is for the packet handlers of engines. Queues an asynchronous event.
  void raise(const AsyncEvent& event) noexcept;
  void raise(EventType type, QpNum qp) noexcept { raise({.type = type, .qp = qp}); }
  // Records that a request completed with an error.
  void note_failure(const Incident& failure) noexcept;
  void count(Count c, uint64_t n = 1) noexcept { counters_.add(c, n); }
  // Adds a completion to the application's queue. False: the queue has overrun, which is counted
  // and raises cq_error once; the queue pair must go to ERR. //= roce:C-OPS-91 threat:A18
  bool deliver(QpNum qp, CompletionQueue& cq, const Completion& completion,
               bool solicited) noexcept {
    const bool armed = cq.armed();
    const Instant due = cq.due();
    WEFT_DCHECK(due.is_never() || armed);  // a held event is that of an armed queue
    if (cq.overrun() || !cq.push(completion, solicited, time_)) return note_overrun(qp, cq), false;
    if (armed) fired_ = fired_ || cq.has_fired() || cq.due() != due;
    return true;
  }
  // Whether received frames carry an ICRC.
  bool checks_icrc() const noexcept { return capabilities_.integrity_bits != 0; }
  // Bytes of ICRC at the end of a frame that was received on `path`.
  uint32_t icrc_length(const Path& path) const noexcept {
    return checks_icrc() && !path.in_memory ? wire::kIcrcLength : 0;
  }

 protected:
  // `destination_port`: the UDP destination port of this protocol's frames.
  bool verify_icrc(const Frame& frame, uint16_t destination_port) noexcept;
  // From now on frames are sent with zero in place of the ICRC, and only such frames are accepted.
  void disable_icrc() noexcept {
    signs_ = false;
    builder_.disable_icrc();
  }

  Port& port_;
  Capabilities capabilities_;
  base::SecureRandom& random_;
  memory::KeyTable keys_;
  Counters counters_;
  FrameBuilder builder_;
  Instant next_deadline_ = Instant::never();  // cached: read in every turn
  bool fired_ = false;
  bool bulk_posted_ = false;

 private:
  bool has_icrc(const Frame& frame, uint16_t destination_port) const noexcept;
  void note_overrun(QpNum qp, CompletionQueue& cq) noexcept;

  bool has_new_events_ = false;
  bool signs_ = true;
  Instant time_;
  IcrcWatch icrc_watch_;
  std::deque<AsyncEvent> events_;
  Incidents incidents_;
};

}  // namespace weft::transport
