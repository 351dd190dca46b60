// SPDX-License-Identifier: BSD-3-Clause
// Turns, posts and memory: the part of the driver that runs on the application's threads.
#include "lib/driver/driver.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "lib/base/undo.hpp"
#include "lib/memory/guarded_copy.hpp"

namespace weft::driver {

namespace {

void signal_fd(int fd) noexcept {
  const uint64_t one = 1;
  if (write(fd, &one, sizeof one) < 0) return;  // full: it is readable already
}

// The one word that a device says by itself: nothing else would tell why nothing works.
void warn_of(const Gid& peer) noexcept {
  const char* const level = std::getenv("WEFT_LOG");
  if (level != nullptr && std::strcmp(level, "off") == 0) return;
  try {
    std::fprintf(stderr,
                 "weft: every packet from %s fails its ICRC and is dropped: probably something on "
                 "the way translates addresses. Use a path without it, or, between weft devices, "
                 "icrc=off in the device strings of both sides\n",
                 to_string(peer).c_str());
  } catch (const std::bad_alloc&) {  // the counter says it too
  }
}

constexpr uint32_t kEagerPosts = 2;  // sent at once after a poll
constexpr uint32_t kBatch = 64;      // then requests leave together, this many at most

}  // namespace

CqHandle::CqHandle(uint32_t capacity, bool timestamps, bool locked)
    : ring(capacity, timestamps),
      consumer(locked),
      event_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
CqHandle::~CqHandle() {
  if (event_fd >= 0) close(event_fd);
}

Driver::Driver(std::unique_ptr<transport::Port> port, const MakeMachine& make_machine,
               const DriverOptions& options)
    : clock_(base::Clock::process()),
      port_(std::move(port)),
      machine_(make_machine(*port_, random_)),
      lock_(!options.single_thread),
      threaded_(!options.single_thread),
      idle_mask_(options.paces ? 0 : 15),
      burst_(port_->capabilities().burst),
      rx_(new transport::Frame[kBurst]),
      tx_(new transport::TxFrame[burst_]) {
  lock_.on_contended([](void* driver) { static_cast<Driver*>(driver)->on_unlock_contended(); },
                     this);
}

void Driver::progress() noexcept {
  if (forked()) return;
  if (threaded_) {
    if (!polled_.load(std::memory_order_relaxed)) polled_.store(true, std::memory_order_relaxed);
    if (mode_.load(std::memory_order_relaxed) == kThreadWatches) stop_background_progress();
  } else if (visit_.load(std::memory_order_relaxed) != nullptr) {
    hand_off();
  }
  if (!lock_.try_lock()) return;
  turn();
  if (mode_.load(std::memory_order_relaxed) == kThreadWatches && next_deadline() < sleeps_until_)
    wake_thread();
  unlock();
}

// The sleeping thread must know of a deadline earlier than its own, and of frames that wait.
void Driver::wake_thread() noexcept {
  sleeps_until_ = Instant{};
  signal_fd(wake_fd_);
}

// The application polls again: the thread must not be woken by packets any more. But who arms a
// queue looks at it once more before it sleeps, and then the thread is needed.
void Driver::stop_background_progress() noexcept {
  int watching = kThreadWatches;
  if (armed_.load(std::memory_order_relaxed) || last_look_.exchange(false)) return;
  if (mode_.compare_exchange_strong(watching, kApplicationPolls)) signal_fd(wake_fd_);
}

void Driver::turn() noexcept {
  posts_since_poll_ = 0;
  unflushed_ = 0;
  const size_t received = port_->receive({rx_.get(), kBurst});
  // What completed without a frame wakes who waits for it: the next turn may be the thread's, and
  // its last before it sleeps.
  const bool busy = received != 0 || machine_->wants_transmit() || tx_begin_ != tx_end_ ||
                    machine_->has_pending_events();
  if (!busy && (++idle_turns_ & idle_mask_) != 0) return;
  const Instant now = clock_.now();
  machine_->set_time(now);
  if (received != 0) {
    machine_->receive({rx_.get(), received}, now);
    port_->release({rx_.get(), received});
  }
  if (machine_->next_deadline() <= now) machine_->expire(now);
  flush(now);
  notify();
}

bool Driver::flush(Instant now) noexcept {
  for (int round = 0; round < 8; ++round) {
    if (tx_begin_ == tx_end_) {
      const size_t made = machine_->transmit({tx_.get(), burst_}, now);
      if (made == 0) return true;
      tx_begin_ = 0;
      tx_end_ = made;
    }
    tx_begin_ += port_->transmit({tx_.get() + tx_begin_, tx_end_ - tx_begin_});
    if (tx_begin_ != tx_end_) return false;
    if (!machine_->has_active()) return true;  // a waiting ACK goes with the next turn
  }
  return true;
}

// Descriptors of completion queues that fired, and of asynchronous events.
void Driver::deliver_events() noexcept {
  if (machine_->take_events()) {
    machine_->incidents().stamp(clock_.now());
    if (machine_->has_event()) signal_fd(async_fd_);
    while (const std::optional<Gid> peer = machine_->next_failing_peer()) keep_report_of(*peer);
  }
  const bool due = !queues_due_.is_never() && queues_due_ <= clock_.now();
  if (machine_->take_fired() || due) wake_queues(due ? clock_.now() : Instant{});
}

void Driver::keep_report_of(const Gid& peer) noexcept {
  try {
    unreported_.push_back(peer);
  } catch (const std::bad_alloc&) {  // the counter says it too
  }
}

// stderr may be a pipe that nobody empties: it is written to when nobody waits for the lock.
void Driver::unlock_and_warn() noexcept {
  std::vector<Gid> peers;
  peers.swap(unreported_);
  lock_.unlock();
  for (const Gid& peer : peers) warn_of(peer);
}

// Those that have fired, and those whose period has ended by `now`.
void Driver::wake_queues(Instant now) noexcept {
  queues_due_ = Instant::never();
  for (CqHandle* cq : cqs_) {
    if (cq->ring.due() <= now) cq->ring.fire();
    if (cq->ring.take_fired()) signal_fd(cq->event_fd);
    queues_due_ = std::min(queues_due_, cq->ring.due());
  }
}

// The port's interface went or came: the application hears of it, the queue pairs go on and lose
// what is sent meanwhile. //= roce:C-AV-99 roce:C-AV-100
void Driver::take_port_events() noexcept {
  while (const std::optional<EventType> news = port_->next_news())
    machine_->raise({.type = *news, .qp = {}});
  notify();
}

void Driver::after_post(uint32_t requests) noexcept {
  unflushed_ += requests;
  // While the thread watches nobody else may come by soon, so nothing is held back.
  const bool eager =
      posts_since_poll_++ < kEagerPosts || mode_.load(std::memory_order_relaxed) == kThreadWatches;
  if (!eager && unflushed_ < kBatch && !machine_->has_bulk()) {
    if (machine_->has_pending_events()) notify();  // it may have completed inside the call
    return;
  }
  unflushed_ = 0;
  after_control();
}

void Driver::after_control() noexcept {
  const Instant now = clock_.now();
  machine_->set_time(now);
  const bool full = !flush(now);
  notify();
  if (mode_.load(std::memory_order_relaxed) != kThreadWatches) return;
  if (full || machine_->wants_transmit() || next_deadline() < sleeps_until_) wake_thread();
}

void Driver::wait_until_sent(const std::function<bool()>& owes) noexcept {
  // The port may be full, or still looking for the way to a peer that has got nothing from us yet.
  // It is given time, but not again and again.
  const Instant limit = clock_.now() + (stuck_ ? Duration{} : Duration::from_ms(100));
  stuck_ = false;
  while (owes() || tx_begin_ != tx_end_) {
    turn();
    const bool full = tx_begin_ != tx_end_;
    if (full) std::this_thread::yield();
    if (clock_.now() < limit) continue;
    stuck_ = full;
    return;
  }
}

size_t Driver::poll(CqHandle& cq, std::span<Completion> out, Instant* times) noexcept {
  if (forked()) return 0;
  if (!cq.ring.empty()) {
    Holder hold(cq.consumer);
    if (const size_t n = cq.ring.pop(out, times)) return n;
  }
  progress();
  if (cq.ring.empty()) return 0;
  Holder hold(cq.consumer);
  return cq.ring.pop(out, times);
}

void Driver::arm(CqHandle& cq, Notify notify) noexcept {
  if (forked()) return;
  {
    Holder hold(lock_);
    cq.ring.arm(notify);
  }
  last_look_.store(true);
  (void)start_background_progress();
}

bool Driver::start_background_progress() noexcept {
  if (!threaded_) return false;
  armed_.store(true);
  if (mode_.load() != kThreadWatches) signal_fd(wake_fd_);
  return true;
}

bool Driver::resize(CqHandle& cq, uint32_t capacity) {
  Holder producer(lock_);
  Holder consumer(cq.consumer);
  return cq.ring.resize(capacity);
}

void Driver::moderate(CqHandle& cq, const CqModeration& moderation) {
  Holder hold(lock_);
  cq.ring.moderate(moderation.count, moderation.period);
  note_queues();
  wake_queues(Instant{});
}

void Driver::add_cq(CqHandle* cq) {
  Holder hold(lock_);
  cqs_.push_back(cq);
  note_queues();
}

void Driver::remove_cq(CqHandle* cq) {
  if (forked()) return;
  Holder hold(lock_);
  cqs_.erase(std::remove(cqs_.begin(), cqs_.end(), cq), cqs_.end());
  note_queues();
}

void Driver::note_queues() noexcept {
  keeps_time_ = std::any_of(cqs_.begin(), cqs_.end(), [](const CqHandle* cq) {
    return cq->ring.keeps_times() || cq->ring.moderated();
  });
}

Result<uint32_t> Driver::register_memory(void* base, size_t size, Access access, uint32_t domain) {
  memory::install_fault_guard();
  if (has(access, Access::zero_based))
    return Error{Code::invalid_argument, "zero_based is for memory windows, not for regions"};
  if (has(access, Access::remote_write) || has(access, Access::remote_atomic)) {
    if (!has(access, Access::local_write))  //= roce:C-OPS-89
      return Error{Code::invalid_argument,
                   "remote_write and remote_atomic need local_write too (IBTA 10.6.3.3)"};
  }
  if (size != 0) {
    const Result<void> ok = memory::verify_mapped(
        base, size, {has(access, Access::local_write), has(access, Access::flush_persistent)});
    if (!ok) return ok.error();
  }
  Holder hold(lock_);
  port_->attach(base, size);
  base::Undo undo([&] { port_->detach(base, size); });
  const uint32_t key = machine_->keys().insert(static_cast<std::byte*>(base), size, access, domain);
  undo.forget();
  return key;
}

bool Driver::adopt_memory(uint32_t key, void* base, size_t size, Access access, uint32_t domain) {
  Holder hold(lock_);
  port_->attach(base, size);
  base::Undo undo([&] { port_->detach(base, size); });
  if (!machine_->keys().adopt(key, static_cast<std::byte*>(base), size, access, domain))
    return false;
  undo.forget();
  return true;
}

void Driver::deregister_memory(uint32_t key, void* base, size_t size) noexcept {
  if (forked()) return;
  Holder hold(lock_);
  machine_->keys().remove(key);
  const Instant now = clock_.now();
  machine_->set_time(now);
  flush(now);
  notify();
  drop_pending_in(base, size);
  port_->detach(base, size);
}

// Frames that the port did not take may name the memory: they are lost, and will not be sent again
// because their key is gone.
void Driver::drop_pending_in(const void* base, size_t size) noexcept {
  const std::byte* const begin = static_cast<const std::byte*>(base);
  const auto touches = [&](const transport::TxFrame& frame) {
    for (uint8_t i = 0; i < frame.span_count; ++i) {
      const std::byte* const at = frame.spans[i].data;
      if (at < begin + size && begin < at + frame.spans[i].length) return true;
    }
    return false;
  };
  transport::TxFrame* const first = tx_.get() + tx_begin_;
  transport::TxFrame* const last = tx_.get() + tx_end_;
  tx_end_ = static_cast<size_t>(std::remove_if(first, last, touches) - tx_.get());
}

// Frames that the port did not take name the path of a queue pair that goes. Whole trains: all
// frames of one take one path.
void Driver::drop_pending_on(const transport::Path& path) noexcept {
  transport::TxFrame* const first = tx_.get() + tx_begin_;
  transport::TxFrame* const last = tx_.get() + tx_end_;
  const auto names = [&path](const transport::TxFrame& frame) { return frame.path == &path; };
  tx_end_ = static_cast<size_t>(std::remove_if(first, last, names) - tx_.get());
}

bool Driver::visit(const std::function<void()>& look, const std::atomic<bool>& leaving) noexcept {
  const std::lock_guard<std::mutex> one(visitors_);
  Visit visit{look};
  visit_.store(&visit, std::memory_order_release);
  const Instant limit = threaded_ ? Instant::never() : clock_.now() + kPatience;
  while (!visit.done.load(std::memory_order_acquire)) {
    if (threaded_ && lock_.try_lock_or_mark_contended()) {
      hand_off();
      lock_.unlock();
      continue;
    }
    // Once it has begun elsewhere it is waited for.
    if ((leaving.load() || clock_.now() >= limit) && visit_.exchange(nullptr) == &visit)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// Behind an unlock() that found somebody waiting.
void Driver::on_unlock_contended() noexcept {
  if (visit_.load(std::memory_order_relaxed) == nullptr || !lock_.try_lock()) return;
  hand_off();
  lock_.unlock();
}

// The lock is held, or there is none and this is the application's thread.
void Driver::hand_off() noexcept {
  Visit* const visit = visit_.exchange(nullptr, std::memory_order_acquire);
  if (visit == nullptr) return;
  try {
    visit->look();
  } catch (const std::bad_alloc&) {  // the visitor sees less
  }
  visit->done.store(true, std::memory_order_release);
}

// An event is a value that is handed over once: it is acknowledged with that, and nothing that goes
// away waits for it. //= roce:C-EVT-109
bool Driver::next_event(AsyncEvent& event) noexcept {
  uint64_t drained;
  Holder hold(lock_);
  if (!threaded_) take_port_events();
  const bool found = machine_->next_event(event);
  if (!machine_->has_event() && read(async_fd_, &drained, sizeof drained) < 0) return found;
  return found;
}

}  // namespace weft::driver
