// SPDX-License-Identifier: BSD-3-Clause
// The driver joins a protocol machine to a port: it owns both, the lock over them, the clock and a
// parked thread. turn() is the whole life of a packet on this machine: frames in, frames out,
// timers.
//
// Progress (docs/design.md): whoever polls runs turns. The thread takes over when nobody has
// polled for a while, or when a completion queue is armed; then it sleeps on the port's
// descriptors. While the application polls, the thread only looks at a clock 2,500 times a second.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/fork.hpp"
#include "lib/driver/lock.hpp"
#include "lib/transport/machine.hpp"

namespace weft::driver {

struct DriverOptions {
  bool single_thread = false;  // no locks, no thread: the application makes all progress
  bool paces = false;          // packets wait for their time: timers are looked at in every turn
};

// A completion queue as the application sees it: the engine's ring, a consumer lock, a descriptor.
struct CqHandle {
  CqHandle(uint32_t capacity, bool timestamps, bool locked);
  ~CqHandle();
  transport::CompletionQueue ring;
  Lock consumer;
  int event_fd = -1;
};

// Makes the machine of a driver; called once, in the constructor.
using MakeMachine =
    std::function<std::unique_ptr<transport::Machine>(transport::Port&, base::SecureRandom&)>;

class Driver {
 public:
  Driver(std::unique_ptr<transport::Port> port, const MakeMachine& make_machine,
         const DriverOptions& options);
  ~Driver();

  // Starts the parked thread. Error: no more threads or descriptors.
  Result<void> start();

  // One turn, unless another thread is in one. Never blocks.
  void progress() noexcept;

  // For API calls: hold `lock()` around every use of machine(), call after_post() or
  // after_control() before it is released.
  Lock& lock() noexcept { return lock_; }
  transport::Machine& machine() noexcept { return *machine_; }
  transport::Port& port() noexcept { return *port_; }
  Instant now() const noexcept { return clock_.now(); }
  // Before a call to the machine that may complete something there and then.
  void tell_time() noexcept {
    if (keeps_time_) machine_->set_time(clock_.now());
  }
  // Sends what was posted: now, or with the next poll if it can share a train with what follows.
  void after_post(uint32_t requests) noexcept;
  void after_control() noexcept;
  // Before a queue pair is destroyed, reset or put into ERR, under the lock: its peer gets what it
  // is owed, a waiting acknowledgement above all, so that it does not retry against nobody. `owes`
  // says whether there is more.
  void wait_until_sent(const std::function<bool()>& owes) noexcept;
  // Frames that the port has not taken and that name `path`, which goes away, are lost.
  void drop_pending_on(const transport::Path& path) noexcept;

  // `times`: nullptr, or as long as `out`.
  size_t poll(CqHandle& cq, std::span<Completion> out, Instant* times = nullptr) noexcept;
  void arm(CqHandle& cq, Notify notify) noexcept;

  // Before the application sleeps on anything but a completion queue: the thread takes over at
  // once. False: there is no thread, the application makes all progress.
  bool start_background_progress() noexcept;

  // False: it holds more than that.
  bool resize(CqHandle& cq, uint32_t capacity);
  void moderate(CqHandle& cq, const CqModeration& moderation);
  void add_cq(CqHandle* cq);
  void remove_cq(CqHandle* cq);

  // Memory: the whole story of a key. deregister returns when nothing in flight can touch the
  // memory.
  Result<uint32_t> register_memory(void* base, size_t size, Access access, uint32_t domain);
  // The same memory under the same key at another engine of the device. False: the key is taken
  // there.
  bool adopt_memory(uint32_t key, void* base, size_t size, Access access, uint32_t domain);
  void deregister_memory(uint32_t key, void* base, size_t size) noexcept;

  // For a look from outside, on any thread: runs `look` while nothing else runs in the machine,
  // here or on the thread that holds the lock (one who polls all the time gives it up for moments
  // only). A device without locks runs it in its application's next progress(): false if that does
  // not come within kPatience, or `leaving` says that the device waits to be closed.
  bool visit(const std::function<void()>& look, const std::atomic<bool>& leaving) noexcept;

  int event_fd() const noexcept { return async_fd_; }
  bool next_event(AsyncEvent& event) noexcept;

  // After fork the child may not touch the parent's device. //= roce:C-EVT-111
  bool forked() const noexcept { return fork_mark_.passed(); }

 private:
  static constexpr size_t kBurst = 64;
  static constexpr Duration kPatience = Duration::from_ms(200);
  struct Visit {
    const std::function<void()>& look;
    std::atomic<bool> done{false};
  };

  void turn() noexcept;  // lock held
  size_t receive_burst(Instant now) noexcept;
  bool flush(Instant now) noexcept;  // false: the port is full
  void notify() noexcept {
    if (machine_->has_pending_events() || !queues_due_.is_never()) deliver_events();
  }
  void deliver_events() noexcept;
  void keep_report_of(const Gid& peer) noexcept;
  void unlock() noexcept {  // and says what there is to be said
    if (unreported_.empty()) return lock_.unlock();
    unlock_and_warn();
  }
  void unlock_and_warn() noexcept;
  void wake_thread() noexcept;
  void wake_queues(Instant now) noexcept;
  void note_queues() noexcept;
  Instant next_deadline() const noexcept {
    return std::min(machine_->next_deadline(), queues_due_);
  }
  void take_port_events() noexcept;
  void drop_pending_in(const void* base, size_t size) noexcept;
  void on_unlock_contended() noexcept;
  void hand_off() noexcept;
  void stop_background_progress() noexcept;
  void run_thread(std::vector<pollfd>& descriptors) noexcept;
  void watch(std::vector<pollfd>& descriptors) noexcept;
  void wake(const pollfd* wakers) noexcept;

  const base::Clock& clock_;
  base::SecureRandom random_;
  std::unique_ptr<transport::Port> port_;
  std::unique_ptr<transport::Machine> machine_;
  Lock lock_;
  const bool threaded_;
  const uint32_t idle_mask_;  // timers are looked at in the idle turns that have none of its bits
  const base::ForkMark fork_mark_;

  // Under the lock.
  const size_t burst_;  // frames that the port wants at once
  std::unique_ptr<transport::Frame[]> rx_;
  std::unique_ptr<transport::TxFrame[]> tx_;
  size_t tx_begin_ = 0, tx_end_ = 0;  // frames that the port has not taken yet
  uint32_t idle_turns_ = 0;
  uint32_t posts_since_poll_ = 0;
  uint32_t unflushed_ = 0;  // requests posted and not handed to the engine's transmit
  Instant sleeps_until_;    // the thread's deadline while it sleeps
  bool stuck_ = false;      // wait_until_sent() ran out of time with a port that took nothing
  std::vector<CqHandle*> cqs_;
  bool keeps_time_ = false;                // one of them has times, or is moderated
  Instant queues_due_ = Instant::never();  // the first end of a period among them
  std::vector<Gid> unreported_;            // peers that a word on stderr is due about
  int async_fd_ = -1;

  // The thread.
  enum Mode : int { kApplicationPolls, kThreadWatches, kStopping };
  alignas(64) std::atomic<int> mode_{kApplicationPolls};
  std::atomic<bool> polled_{false};     // someone polled since the thread looked
  std::atomic<bool> armed_{false};      // a queue was armed: watch at once
  std::atomic<bool> last_look_{false};  // that is to come before who has armed it sleeps
  std::atomic<Visit*> visit_{nullptr};  // who wants to look
  std::mutex visitors_;                 // one at a time
  int wake_fd_ = -1;
  std::thread thread_;
};

}  // namespace weft::driver
