// SPDX-License-Identifier: BSD-3-Clause
// Turns, posts and events: see driver.hpp.
#include "lib/driver/driver.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"

namespace weft::driver {

Driver::Driver(std::unique_ptr<transport::Port> port, const MakeMachine& make_machine,
               const DriverOptions& options)
    : clock_(base::Clock::process()),
      port_(std::move(port)),
      machine_(make_machine(*port_, random_)),
      lock_(!options.single_thread),
      threaded_(!options.single_thread),
      idle_mask_(options.paces ? 0 : 15),
      rx_(new transport::Frame[kBurst]),
      recorder_(options.packets),
      tx_(*machine_, *port_, recorder_),
      posts_(clock_, options.single_thread),
      suspension_(*port_),
      log_lines_(options.subsystem),
      hand_off_(lock_, clock_) {
  port_->report_lost_peers(lost_);
}

Result<void> Driver::start() {
  async_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (async_fd_ < 0) return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  if (const Result<void> opened = background_.open(); !opened || !threaded_) return opened;
  return background_.start({
      .turn = [this](std::vector<pollfd>& list, bool polled,
                     bool checks) { return turn_before_sleep(list, polled, checks); },
      .poll =
          [this] {
            if (!lock_.try_lock()) return false;
            end_sleep(false);
            background_.set_wake_up({});
            const size_t received = turn();
            if (received == 0) tx_.flush_delayed_acks();
            unlock();
            return received != 0;
          },
      .end_sleep =
          [this] {
            Holder hold(lock_);
            end_sleep(false);
          },
      .send_held_posts =
          [this] {
            if (!lock_.try_lock()) return;
            if (posts_.overdue()) after_control();
            unlock();
          },
      .take_port_events =
          [this] {
            Holder hold(lock_);
            take_port_events();
          },
      .port_event_fd = port_->async_event_fd(),
  });
}

Driver::~Driver() {
  if (forked()) {  //= roce:C-EVT-111
    // The thread lives in the parent only, and closing the port would take it from the parent.
    background_.abandon();
    (void)port_.release();
    recorder_.abandon();
  } else {
    background_.stop();
  }
  if (async_fd_ >= 0) close(async_fd_);
}

void Driver::progress() noexcept {
  if (forked()) return;
  if (threaded_) {
    background_.on_poll();
  } else if (hand_off_.pending()) {
    hand_off_.run_pending();
  }
  if (!lock_.try_lock()) return;
  posts_.on_poll(machine_->time());
  const size_t received = turn();
  if (background_.active()) {
    leave_to_thread(received == kBurst);
    if (received != 0) background_.on_packets_taken();
    suspension_.on_empty_poll();
  }
  unlock();
}

size_t Driver::turn() noexcept {
  WEFT_DCHECK(lock_.held());
  posts_.on_turn();
  const size_t received = port_->receive({rx_.get(), kBurst});
  WEFT_DCHECK(received <= kBurst);
  // Pending events end an idle turn too: the next turn may be the thread's last before it sleeps.
  const bool lost = !lost_.empty();
  const bool busy = received != 0 || lost || machine_->wants_transmit() || !tx_.empty() ||
                    machine_->has_pending_events();
  if (!busy && (++idle_turns_ & idle_mask_) != 0) return 0;
  const Instant now = clock_.now();
  machine_->set_time(now);
  if (received != 0) {
    recorder_.received({rx_.get(), received}, now);
    machine_->receive({rx_.get(), received}, now);
    port_->release({rx_.get(), received});
  }
  while (lost && !lost_.empty()) machine_->lose_peer(lost_.take(), now);
  if (machine_->next_deadline() <= now) machine_->expire(now);
  tx_.flush(now);
  notify();
  check_invariants();
  return received;
}

// Makes the descriptors readable: of completion queues that fired, and of asynchronous events.
void Driver::deliver_events() noexcept {
  WEFT_DCHECK(lock_.held());
  if (machine_->take_events()) {
    const Instant now = clock_.now();
    machine_->incidents().stamp(now, [&](const transport::Incident& incident) {
      recorder_.happened(incident, now);
      log_lines_.happened(incident, port_->address());
    });
    while (const std::optional<Gid> peer = machine_->next_failing_peer())
      log_lines_.fails_icrc(*peer, port_->address());
    if (machine_->has_event()) signal_fd(async_fd_);
  }
  const bool due = !cqs_.deadline().is_never() && cqs_.deadline() <= clock_.now();
  if (machine_->take_fired() || due) cqs_.signal(due ? clock_.now() : Instant{});
}

// stderr may be a full pipe, so it is written to without the lock.
void Driver::unlock_and_log() noexcept {
  LogLines lines = log_lines_.take();
  lock_.unlock();
  lines.write();
}

// The port's interface went down or came up: an event for the application. Queue pairs keep their
// state and lose what is sent meanwhile. //= roce:C-AV-99 roce:C-AV-100
void Driver::take_port_events() noexcept {
  WEFT_DCHECK(lock_.held());
  while (const std::optional<EventType> event = port_->next_event())
    machine_->raise({.type = *event, .qp = {}});
  notify();
}

void Driver::after_post(uint32_t requests) noexcept {
  WEFT_DCHECK(lock_.held());
  if (posts_.holds(requests)) {
    // While packets wake the thread the next poll may be far away.
    if (!background_.active() && !machine_->has_bulk()) {
      if (machine_->has_pending_events()) notify();  // it may have completed inside the call
      return;
    }
    posts_.release();
  }
  if (background_.active() && !suspension_.on_post()) background_.wake();
  after_control();
}

void Driver::after_control() noexcept {
  WEFT_DCHECK(lock_.held());
  const Instant now = clock_.now();
  machine_->set_time(now);
  tx_.flush(now);
  notify();
  check_invariants();
  if (background_.active()) leave_to_thread(false);
}

void Driver::wait_until_sent(const std::function<bool()>& has_pending) noexcept {
  WEFT_DCHECK(lock_.held());
  // The port may be full, or still resolving the peer's link address. A port that timed out once
  // is not waited for again until it takes a frame.
  const Instant limit = clock_.now() + (port_stuck_ ? Duration{} : Duration::from_ms(100));
  port_stuck_ = false;
  while (has_pending() || !tx_.empty()) {
    turn();
    const bool full = !tx_.empty();
    if (full) std::this_thread::yield();
    if (clock_.now() < limit) continue;
    port_stuck_ = full;
    return;
  }
}

size_t Driver::poll(CqHandle& cq, std::span<Completion> out, Instant* times) noexcept {
  if (forked()) return 0;
  if (threaded_) background_.on_poll();
  if (cq.ring.empty()) progress();
  if (cq.ring.empty() || cqs_.held()) return 0;
  size_t count;
  {
    Holder hold(cq.consumer);
    count = cq.ring.pop(out, times);
  }
  // While packets wake the thread: the application may wait for something else now. What has
  // arrived by now is received here, which costs less than to wake the thread.
  if (background_.active() && lock_.try_lock()) {
    suspension_.on_poll();
    if (suspension_.suspended()) leave_to_thread(turn() == kBurst);
    if (!suspension_.resume()) background_.wake();
    unlock();
  }
  return count;
}

bool Driver::resize(CqHandle& cq, uint32_t capacity) {
  Holder producer(lock_);  // the order of these locks is the same everywhere
  Holder consumer(cq.consumer);
  WEFT_DCHECK(lock_.held() && cq.consumer.held());
  return cq.ring.resize(capacity);
}

void Driver::add_cq(CqHandle* cq) {
  Holder hold(lock_);
  cqs_.add(cq);
}

void Driver::remove_cq(CqHandle* cq) {
  if (forked()) return;
  Holder hold(lock_);
  cqs_.remove(cq);
}

// Events are copied out, so none has to be acknowledged before an object is destroyed.
// //= roce:C-EVT-109
bool Driver::next_event(AsyncEvent& event) noexcept {
  uint64_t drained;
  Holder hold(lock_);
  if (!threaded_) take_port_events();
  const bool found = machine_->next_event(event);
  if (!machine_->has_event() && read(async_fd_, &drained, sizeof drained) < 0) return found;
  return found;
}

void Driver::check_invariants() const noexcept {
  if constexpr (!base::kChecksInvariants) return;
  WEFT_DCHECK(lock_.held());
  WEFT_DCHECK(!background_.active() || threaded_);
  cqs_.check_invariants();
}

}  // namespace weft::driver
