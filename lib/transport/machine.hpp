// SPDX-License-Identifier: BSD-3-Clause
// What every protocol machine has in common, and all that a driver or the simulator needs to know
// of one: the four calls of the packet side, the key table, counters and events. The RoCE engine
// (engine.hpp) and the SRD engine (srd/engine.hpp) are machines; they share no transport state.
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

struct Limits {
  uint32_t max_qp = 65536;
  uint32_t max_qp_wr = 1u << 20;
  uint32_t max_sge = 32;
  uint32_t max_inline = 1024;
  uint32_t max_cqe = 1u << 22;
  uint32_t max_rd_atomic = 128;
  uint64_t max_message = 1ull << 31;
};

// Single-threaded: the caller holds the lock (see lib/driver). Work per call is bounded, a spurious
// call is a no-op, `now` is read once per burst.
class Machine {
 public:
  Machine(Port& port, base::SecureRandom& random);
  virtual ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  virtual void receive(std::span<const Frame> frames, Instant now) noexcept = 0;
  // Fills up to frames.size() frames to send; their memory stays valid until the next transmit().
  virtual size_t transmit(std::span<TxFrame> frames, Instant now) noexcept = 0;
  virtual void expire(Instant now) noexcept = 0;
  // When expire() must be called; not later than the first deadline, perhaps earlier.
  Instant next_deadline() const noexcept { return next_deadline_; }
  // True if transmit() has something to do now, a waiting acknowledgement included.
  virtual bool wants_transmit() const noexcept = 0;
  // True if it has more than waiting acknowledgements.
  virtual bool has_active() const noexcept = 0;
  // True if a request of more than a page waits: it fills trains by itself.
  bool has_bulk() const noexcept { return bulk_posted_; }
  // True once after a completion queue that was armed got a completion: one has fired, or begun to
  // hold back until due().
  bool take_fired() noexcept { return std::exchange(fired_, false); }
  // Somebody waits for what take_fired() or take_news() would say.
  bool has_pending_events() const noexcept { return fired_ || news_; }

  memory::KeyTable& keys() noexcept { return keys_; }
  const Counters& counters() const noexcept { return counters_; }
  const Capabilities& capabilities() const noexcept { return capabilities_; }
  // Moves the next asynchronous event to `event`; false if there is none.
  bool next_event(AsyncEvent& event) noexcept;
  bool has_event() const noexcept { return !events_.empty(); }
  // True once after an incident: an event, or a request that failed.
  bool take_events() noexcept { return news_ && std::exchange(news_, false); }
  Incidents& incidents() noexcept { return incidents_; }
  // The next peer to tell a person about: all that comes from it fails the ICRC. After take_news().
  std::optional<Gid> next_failing_peer() noexcept { return icrc_watch_.next_report(); }

  // The time of what it does from now on, for the queues that keep or wait for it: before each
  // call.
  void set_time(Instant now) noexcept { time_ = now; }
  Instant time() const noexcept { return time_; }

  // For the handlers, which are functions over an engine and a piece of its state.
  void raise(const AsyncEvent& event) noexcept;
  void raise(EventType type, QpNum qp) noexcept { raise({.type = type, .qp = qp}); }
  // A request of `qp` ended with `status`, and that was its own fault or its peer's.
  void note_failure(QpNum qp, Status status) noexcept;
  void count(Count c, uint64_t n = 1) noexcept { counters_.add(c, n); }
  // Hands a completion to the application. False: its queue has overrun, which is counted and was
  // told once; the queue pair must not go on. //= roce:C-OPS-91 threat:A18
  bool deliver(QpNum qp, CompletionQueue& cq, const Completion& completion,
               bool solicited) noexcept {
    const bool armed = cq.armed();
    const Instant due = cq.due();
    WEFT_DCHECK(due.is_never() || armed);  // a held event is that of an armed queue
    if (cq.overrun() || !cq.push(completion, solicited, time_)) return note_overrun(qp, cq), false;
    if (armed) fired_ = fired_ || cq.has_fired() || cq.due() != due;
    return true;
  }
  bool checks_icrc() const noexcept { return capabilities_.integrity_bits != 0; }

 protected:
  // `destination_port`: the UDP port that this protocol's frames come to.
  bool verify_icrc(const Frame& frame, uint16_t destination_port) noexcept;
  // From now on zero stands where the ICRC would, in what is sent and in all that is taken.
  void leave_unsigned() noexcept {
    signs_ = false;
    builder_.leave_unsigned();
  }

  Port& port_;
  Capabilities capabilities_;
  base::SecureRandom& random_;
  memory::KeyTable keys_;
  Counters counters_;
  FrameBuilder builder_;
  Instant next_deadline_ = Instant::never();  // cached: asked for every turn
  bool fired_ = false;
  bool bulk_posted_ = false;

 private:
  bool has_icrc(const Frame& frame, uint16_t destination_port) const noexcept;
  void note_overrun(QpNum qp, CompletionQueue& cq) noexcept;

  bool news_ = false;
  bool signs_ = true;
  Instant time_;
  IcrcWatch icrc_watch_;
  std::deque<AsyncEvent> events_;
  Incidents incidents_;
};

}  // namespace weft::transport
