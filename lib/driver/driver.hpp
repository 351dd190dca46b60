// SPDX-License-Identifier: BSD-3-Clause
// The driver joins a protocol machine to a port: it owns both, the lock over them, the clock and a
// progress thread. turn() moves packets: frames in, timers, frames out.
//
// Progress (docs/design.md): a thread that polls runs turns. The progress thread runs them when
// packets arrive, unless the application polls for them (progress_thread.hpp). Posts leave in the
// call (post_batching.hpp).
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/fork.hpp"
#include "lib/driver/cq_set.hpp"
#include "lib/driver/lock.hpp"
#include "lib/driver/lock_hand_off.hpp"
#include "lib/driver/log_lines.hpp"
#include "lib/driver/post_batching.hpp"
#include "lib/driver/progress_thread.hpp"
#include "lib/driver/record/flight_recorder.hpp"
#include "lib/driver/sleep_suspension.hpp"
#include "lib/driver/tx_backlog.hpp"
#include "lib/memory/key_table.hpp"
#include "lib/transport/machine.hpp"

namespace weft::driver {

struct DriverOptions {
  bool single_thread = false;  // no locks, no thread: the application makes all progress
  base::Subsystem subsystem = base::Subsystem::roce;  // of its lines in the log
  bool paces = false;      // pacing timers: they are checked in every turn, idle ones too
  PacketLayout packets{};  // for the flight record
};

// Makes the machine of a driver; called once, in the constructor.
using MakeMachine =
    std::function<std::unique_ptr<transport::Machine>(transport::Port&, base::SecureRandom&)>;

class Driver {
 public:
  Driver(std::unique_ptr<transport::Port> port, const MakeMachine& make_machine,
         const DriverOptions& options);
  ~Driver();

  // Opened before start(), if at all, then used under the lock.
  FlightRecorder& recorder() noexcept { return recorder_; }
  // Starts the progress thread. Error: no more threads or descriptors.
  Result<void> start();

  // One turn, unless another thread is in one. Never blocks.
  void progress() noexcept;

  // For API calls: hold `lock()` around every use of machine() and cqs(), and call after_post() or
  // after_control() before it is released.
  Lock& lock() noexcept { return lock_; }
  transport::Machine& machine() noexcept { return *machine_; }
  transport::Port& port() noexcept { return *port_; }
  CqSet& cqs() noexcept { return cqs_; }
  Instant now() const noexcept { return clock_.now(); }
  // Before a call to the machine that may complete a request at once, under the lock: completion
  // times and moderation need the current time.
  void update_machine_time() noexcept {
    if (cqs_.needs_time()) machine_->set_time(clock_.now());
  }
  // Sends what was posted, under the lock: now, or with later posts (post_batching.hpp).
  void after_post(uint32_t requests) noexcept;
  void after_control() noexcept;
  // Before a queue pair is destroyed, reset or put into ERR, under the lock: sends its delayed
  // acknowledgements, so that the peer does not retransmit to a queue pair that is gone.
  // `has_pending` says whether it has any. Waits 100 ms at most for a port that takes nothing.
  void wait_until_sent(const std::function<bool()>& has_pending) noexcept;
  // Before `path` is destroyed, under the lock: drops frames that name it.
  void drop_unsent_frames(const transport::Path& path) noexcept { tx_.drop_path(path); }

  // `times`: nullptr, or as long as `out`.
  size_t poll(CqHandle& cq, std::span<Completion> out, Instant* times = nullptr) noexcept;
  void arm(CqHandle& cq, Notify notify) noexcept;
  // Before the application sleeps on a descriptor that is not a completion queue's: the progress
  // thread takes over at once. False: there is no thread, the application makes all progress.
  bool start_background_progress() noexcept;

  // False: it holds more than `capacity` completions.
  bool resize(CqHandle& cq, uint32_t capacity);
  void add_cq(CqHandle* cq);
  void remove_cq(CqHandle* cq);

  // registration.cpp. Whether such a region may be: its rights, and the pages of its memory.
  static Result<void> check_registration(const memory::Registration& region);
  // Attaches the memory of a region that was checked to the port and makes a key. Error: no_memory.
  Result<uint32_t> register_memory(const memory::Registration& region);
  // The same region under the same key at another engine of the device. False: that engine has a
  // key of this number already.
  bool register_memory_with_key(uint32_t key, const memory::Registration& region);
  // Replaces the region of `key`, `before`, by another that was checked. False, and nothing has
  // changed: windows are bound to it. When it returns, nothing in flight can touch memory that was
  // in `before` only.
  bool replace_memory(uint32_t key, const memory::Registration& before,
                      const memory::Registration& after) noexcept;
  // When it returns, nothing in flight can touch the memory.
  void deregister_memory(uint32_t key, const memory::Registration& region) noexcept;

  // For inspection, from any thread: see LockHandOff::run(). `closing`: the device is about to be
  // closed.
  bool run_exclusive(const std::function<void()>& function,
                     const std::atomic<bool>& closing) noexcept {
    return hand_off_.run(function, closing);
  }

  // Readable when next_event() has one.
  int event_fd() const noexcept { return async_fd_; }
  bool next_event(AsyncEvent& event) noexcept;

  // After fork the child must not touch the parent's device. //= roce:C-EVT-111
  bool forked() const noexcept { return fork_mark_.passed(); }

 private:
  static constexpr size_t kBurst = 64;

  // The lock is held. Returns the number of frames received.
  size_t turn() noexcept;
  // After a turn or a transmission on a thread of the application while the progress thread sleeps.
  void leave_to_thread(bool more) noexcept;
  void notify() noexcept {
    if (machine_->take_exceptions()) recorder_.counted(machine_->counters(), machine_->time());
    if (machine_->has_pending_events() || !cqs_.deadline().is_never()) deliver_events();
  }
  void deliver_events() noexcept;
  void take_port_events() noexcept;
  Instant next_deadline() const noexcept {
    return std::min(machine_->next_deadline(), cqs_.deadline());
  }
  void release_memory(const memory::Registration& region) noexcept;
  void unlock() noexcept {
    if (log_lines_.empty()) return lock_.unlock();
    unlock_and_log();
  }
  void unlock_and_log() noexcept;
  void check_invariants() const noexcept;

  // The progress thread; see ThreadWork.
  ThreadWork::Turn turn_before_sleep(std::vector<pollfd>& descriptors, bool polled,
                                     bool checks) noexcept;
  void end_sleep(bool checks) noexcept;

  const base::Clock& clock_;
  base::SecureRandom random_;
  transport::LostPeers lost_;  // told to the machine in the turn in which the port noticed
  std::unique_ptr<transport::Port> port_;
  std::unique_ptr<transport::Machine> machine_;
  Lock lock_;
  const bool threaded_;
  const uint32_t idle_mask_;  // an idle turn checks timers if its number has none of these bits
  const base::ForkMark fork_mark_;

  // Under the lock.
  std::unique_ptr<transport::Frame[]> rx_;
  FlightRecorder recorder_;
  TxBacklog tx_;
  uint32_t idle_turns_ = 0;
  PostBatching posts_;
  bool sleeps_ = false;  // the progress thread, on the port's descriptors
  SleepSuspension suspension_;
  Instant polled_at_;        // the thread's last turn before which the application had polled
  bool port_stuck_ = false;  // the last wait_until_sent() timed out with a full port
  CqSet cqs_;
  LogLines log_lines_;  // to be written after unlock
  int async_fd_ = -1;

  ProgressThread background_;
  LockHandOff hand_off_;
};

}  // namespace weft::driver
