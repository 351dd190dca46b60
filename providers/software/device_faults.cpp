// SPDX-License-Identifier: BSD-3-Clause
// See device_faults.hpp.
#include "providers/software/device_faults.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <string_view>

#include "lib/base/check.hpp"
#include "lib/base/log/log.hpp"

namespace weft::software {

namespace {

using middleware::FaultEvent;

constexpr std::string_view kCounterNames[] = {
#define X(name) "fault_" #name,
    WEFT_FAULT_EVENTS(X)
#undef X
};
static_assert(std::size(kCounterNames) == middleware::kFaultEventEnd);

// The fault port of an engine, below other middleware; null: there is none.
middleware::FaultPort* fault_port_of(driver::Driver& driver) noexcept {
  transport::Port* port = &driver.port();
  for (;;) {
    if (auto* const found = dynamic_cast<middleware::FaultPort*>(port)) return found;
    auto* const wrapping = dynamic_cast<middleware::WrappingPort*>(port);
    if (wrapping == nullptr) return nullptr;
    port = &wrapping->inner();
  }
}

timespec to_timespec(Duration time) noexcept {
  const int64_t ns = std::max<int64_t>(time.ns(), 0) + 1;
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

// What all contexts of the device are told; null: the event is of queues.
const EventType* port_event_of(FaultEvent event) noexcept {
  static constexpr EventType kError = EventType::port_error, kActive = EventType::port_active,
                             kChange = EventType::gid_change, kFatal = EventType::device_fatal;
  switch (event) {
    case FaultEvent::port_down:
      return &kError;
    case FaultEvent::port_up:
      return &kActive;
    case FaultEvent::gid_gone:
    case FaultEvent::gid_back:
      return &kChange;
    case FaultEvent::device_removed:
      return &kFatal;
    default:
      return nullptr;
  }
}

}  // namespace

DeviceFaults::~DeviceFaults() {
  WEFT_DCHECK(!thread_.joinable());
  if (stop_fd_ >= 0) close(stop_fd_);
}

Result<void> DeviceFaults::start(const std::string& spec, bool single_thread) {
  const middleware::FaultPort* const port = fault_port_of(*drivers_.front());
  if (port == nullptr || port->timeline().empty()) return {};
  if (single_thread)
    return Error{Code::invalid_argument,
                 "fault.timeline needs a thread: leave single_thread=1 out"};
  spec_ = spec;
  steps_ = port->timeline();
  begin_ = drivers_.front()->now();
  stop_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (stop_fd_ < 0) return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception& e) {
    return Error{Code::no_memory, std::string("cannot start the thread of faults: ") + e.what()};
  }
  pthread_setname_np(thread_.native_handle(), "weft-faults");
  return {};
}

void DeviceFaults::stop(bool forked) noexcept {
  if (!thread_.joinable()) return;
  if (forked) {  // not detach(): the handle may be that of a thread that the child has started
    ::new (static_cast<void*>(&thread_)) std::thread;
    return;
  }
  driver::signal_fd(stop_fd_);
  thread_.join();
}

void DeviceFaults::run() {
  for (size_t next = 0; next < steps_.size() || !release_at_.is_never();) {
    const Instant now = drivers_.front()->now();
    const Instant at = next < steps_.size() ? begin_ + steps_[next].at : Instant::never();
    const Instant due = std::min(at, release_at_);
    pollfd stop{stop_fd_, POLLIN, 0};
    const timespec wait = to_timespec(due - now);
    if (ppoll(&stop, 1, &wait, nullptr) > 0) return;
    if (drivers_.front()->now() < due) continue;  // a signal
    if (due == release_at_)
      release_completions();
    else
      apply(steps_[next++]);
  }
}

void DeviceFaults::apply(const middleware::FaultStep& step) {
  for (const Event event : step.events) note(event);
  for (const auto& driver : drivers_) apply_to(*driver, step);
  for (const Event event : step.events) ++counts_[static_cast<size_t>(event)];
  log(step);
}

void DeviceFaults::note(Event event) noexcept {
  if (event == Event::port_down || event == Event::port_up) port_down_ = event == Event::port_down;
  if (event == Event::gid_gone || event == Event::gid_back) gid_gone_ = event == Event::gid_gone;
  if (event == Event::device_removed) removed_ = true;
}

void DeviceFaults::apply_to(driver::Driver& driver, const middleware::FaultStep& step) {
  driver::Holder hold(driver.lock());
  driver.machine().set_time(driver.now());
  middleware::FaultOptions faults = step.options;
  if (port_is_down() || gid_is_gone()) {
    faults.blackhole = middleware::FaultDirection::both;
    faults.flap_up = faults.flap_down = {};
  }
  fault_port_of(driver)->change(faults);
  for (const Event event : step.events) {
    if (const EventType* const type = port_event_of(event)) driver.machine().raise({.type = *type});
    if (event == Event::qp_error || event == Event::device_removed)
      fail_queue_pairs_(driver, event == Event::qp_error);
    if (event == Event::cq_overrun) driver.cqs().overrun(driver.machine());
    if (event != Event::completions_held) continue;
    driver.cqs().hold(true, driver.now());
    release_at_ = driver.now() + step.held;
  }
  driver.after_control();
}

void DeviceFaults::release_completions() {
  release_at_ = Instant::never();
  for (const auto& driver : drivers_) {
    driver::Holder hold(driver->lock());
    driver->cqs().hold(false, driver->now());
  }
}

void DeviceFaults::log(const middleware::FaultStep& step) const {
  base::log(base::Subsystem::faults, LogLevel::warning, [&] {
    char after[32];
    std::snprintf(after, sizeof after, "%g", static_cast<double>(step.at.ns()) / 1e6);
    return "fault of " + spec_ + " after " + after + " ms: " + step.text;
  });
}

void DeviceFaults::append_counters(std::vector<Counter>& counters) const {
  for (size_t i = 0; i < counts_.size() && !steps_.empty(); ++i)
    counters.push_back({kCounterNames[i], counts_[i].load()});
}

}  // namespace weft::software
