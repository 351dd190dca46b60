// SPDX-License-Identifier: BSD-3-Clause
// Objects of all software providers. Each call takes the driver's lock, moves the machine, and lets
// the driver send what came of it.
#include "providers/software/context.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/undo.hpp"

namespace weft::software {

namespace {

class Region final : public verbs::Region {
 public:
  Region(Device device, const Drivers& drivers, uint32_t key, void* at, size_t length)
      : device_(std::move(device)), drivers_(drivers) {
    base = at;
    size = length;
    lkey = LKey{key};
    rkey = RKey{key};
  }
  ~Region() override {
    for (const auto& driver : drivers_) driver->deregister_memory(lkey.value, base, size);
  }

 private:
  Device device_;
  const Drivers& drivers_;
};

// What each engine sees of the interface that all of them share; the first one's word is enough.
bool is_of_interface(EventType type) noexcept {
  return type == EventType::port_active || type == EventType::port_error ||
         type == EventType::gid_change;
}

Drivers drive(Context::Ports ports, const driver::MakeMachine& make,
              const driver::DriverOptions& options) {
  Drivers drivers;
  for (auto& port : ports) {
    drivers.push_back(std::make_unique<driver::Driver>(std::move(port), make, options));
    if (ports.size() > 1) drivers.back()->machine().keys().keep_regions();
  }
  return drivers;
}

}  // namespace

Cq::Cq(Device device, driver::Driver& driver, const CompletionQueueOptions& options, bool locked)
    : device_(std::move(device)),
      driver_(driver),
      handle_(options.capacity, options.timestamps, locked) {
  driver_.add_cq(&handle_);
}
Cq::~Cq() { driver_.remove_cq(&handle_); }

void Cq::acknowledge() noexcept {
  uint64_t count;
  if (read(handle_.event_fd, &count, sizeof count) < 0) return;  // was not readable
}

Result<bool> Cq::resize(uint32_t capacity) {
  if (driver_.forked()) return Error{Code::permission_denied, kForked};
  return driver_.resize(handle_, capacity);
}

Result<void> Cq::moderate(const CqModeration& moderation) {
  if (driver_.forked()) return Error{Code::permission_denied, kForked};
  driver_.moderate(handle_, moderation);
  return {};
}

// Engine 0 proves that the memory is there and makes the key; the others take both over, and a key
// that one of them cannot take is made anew.
Result<uint32_t> Domain::enter(void* base, size_t size, Access access) {
  for (;;) {
    const Result<uint32_t> key = driver_.register_memory(base, size, access, id_);
    if (!key) return key;
    size_t entered = 1;
    // A key that nobody holds would open the memory for ever.
    base::Undo undo([&] {
      for (size_t i = 0; i < entered; ++i) drivers_[i]->deregister_memory(*key, base, size);
    });
    while (entered < drivers_.size() &&
           drivers_[entered]->adopt_memory(*key, base, size, access, id_))
      ++entered;
    if (entered < drivers_.size()) continue;
    undo.forget();
    return key;
  }
}

Result<std::shared_ptr<verbs::Region>> Domain::register_memory(void* base, size_t size,
                                                               Access access) {
  if (forked()) return Error{Code::permission_denied, kForked};
  const Result<uint32_t> key = enter(base, size, access);
  if (!key) return key.error();
  base::Undo undo([&] {
    for (const auto& driver : drivers_) driver->deregister_memory(*key, base, size);
  });
  auto made = std::make_shared<Region>(device_, drivers_, *key, base, size);
  undo.forget();
  return std::shared_ptr<verbs::Region>(std::move(made));
}

Result<Domain::Queues> Domain::queues_of(const QueuePairOptions& options) const {
  Cq* const send = cq_of(options.send_cq);
  Cq* const recv = cq_of(options.recv_cq);
  const auto wrong = [&](const CompletionQueue& handle, const Cq* cq) {
    return cq == nullptr &&
           (handle.impl() != nullptr || !is_xrc(options.type));  // those of XRC may lack one
  };
  if (wrong(options.send_cq, send) || wrong(options.recv_cq, recv))
    return Error{Code::invalid_argument,
                 "send_cq and recv_cq must be completion queues of the same open device"};
  if (send != nullptr && recv != nullptr && &send->driver() != &recv->driver())
    return Error{Code::invalid_argument,
                 "send_cq and recv_cq are on different engines of the device: a queue pair lives "
                 "where both its completion queues do (CompletionQueueOptions::engine)"};
  const auto ring = [](Cq* cq) { return cq != nullptr ? &cq->handle().ring : nullptr; };
  Cq* const either = send != nullptr ? send : recv;
  return Queues{ring(send), ring(recv), either != nullptr ? &either->driver() : nullptr};
}

Cq* Domain::cq_of(const CompletionQueue& handle) const noexcept {
  auto* const cq = dynamic_cast<Cq*>(handle.impl().get());
  return cq != nullptr && is_ours(cq->driver()) ? cq : nullptr;
}

bool Domain::is_ours(const driver::Driver& driver) const noexcept {
  return std::any_of(drivers_.begin(), drivers_.end(),
                     [&](const auto& ours) { return ours.get() == &driver; });
}

Context::Context(Ports ports, const driver::MakeMachine& make, const driver::DriverOptions& options,
                 DeviceAttributes attributes)
    : single_thread_(options.single_thread),
      attributes_(std::move(attributes)),
      drivers_(drive(std::move(ports), make, options)),
      driver_(*drivers_.front()) {
  attributes_.engines = static_cast<uint32_t>(drivers_.size());
  if (drivers_.size() > 1) attributes_.invalidates_regions = false;
}

// Engine 0 owns the address and goes last: nobody else gets it while others still listen there.
Context::~Context() {
  if (events_ >= 0) close(events_);
  while (!drivers_.empty()) drivers_.pop_back();
}

Result<void> Context::start() {
  for (const auto& driver : drivers_)
    if (const Result<void> ok = driver->start(); !ok) return ok;
  if (drivers_.size() == 1) return {};
  events_ = epoll_create1(EPOLL_CLOEXEC);
  for (const auto& driver : drivers_) {
    epoll_event readable{.events = EPOLLIN, .data = {}};
    if (events_ < 0 || epoll_ctl(events_, EPOLL_CTL_ADD, driver->event_fd(), &readable) != 0)
      return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  }
  return {};
}

Result<std::shared_ptr<verbs::Cq>> Context::create_cq(const Device& device,
                                                      const CompletionQueueOptions& options) {
  if (driver_.forked()) return Error{Code::permission_denied, kForked};
  std::shared_ptr<Cq> cq(new Cq(device, *drivers_[options.engine], options, !single_thread_));
  if (cq->fd() < 0) return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  return std::shared_ptr<verbs::Cq>(std::move(cq));
}

std::optional<AsyncEvent> Context::next_event() {
  if (driver_.forked()) return std::nullopt;
  for (const auto& driver : drivers_) {
    AsyncEvent event;
    while (driver->next_event(event))
      if (driver == drivers_.front() || !is_of_interface(event.type)) return event;
  }
  return std::nullopt;
}

namespace {

void append_counters(driver::Driver& driver, std::vector<Counter>& counters) {
  const engine::Counters& values = driver.machine().counters();
  for (size_t i = 0; i < engine::kCountEnd; ++i)
    counters.push_back({engine::kCountNames[i], values[static_cast<engine::Count>(i)]});
  driver.port().append_counters(counters);
}

// Adds to each counter that of the same name, but of a maximum takes the larger.
void add_counters(std::vector<Counter>& sums, const std::vector<Counter>& more) {
  for (const Counter& counter : more) {
    const auto same = std::find_if(sums.begin(), sums.end(),
                                   [&](const Counter& sum) { return sum.name == counter.name; });
    if (same == sums.end())
      sums.push_back(counter);
    else if (std::string_view(counter.name).find("_most_") != std::string_view::npos)
      same->value = std::max(same->value, counter.value);
    else
      same->value += counter.value;
  }
}

}  // namespace

std::vector<Counter> Context::counters() const {
  std::vector<Counter> sums, some;
  if (driver_.forked()) return sums;
  for (const auto& driver : drivers_) {
    some.clear();
    driver::Holder hold(driver->lock());
    append_counters(*driver, some);
    add_counters(sums, some);
  }
  return sums;
}

bool Context::inspect_common(verbs::Inspection& found, const std::atomic<bool>& leaving) const {
  found.at = driver_.now();
  found.events.reserve(engine::Incidents::kMost * drivers_.size());
  std::vector<Counter> some;
  some.reserve(engine::kCountEnd + 32);
  for (const auto& driver : drivers_) {
    some.clear();
    const auto look = [&] {
      append_counters(*driver, some);
      driver->machine().incidents().visit([&](const engine::Incident& incident) {
        const bool failed = incident.status != Status::success;
        found.events.push_back({found.at - std::min(found.at, incident.at),
                                failed ? name(incident.status) : name(incident.event.type),
                                incident.qp});
      });
    };
    if (driver->visit(look, leaving)) {
      add_counters(found.counters, some);
      continue;
    }
    found.note =
        "single_thread=1: only the application's own thread may look, and it did not poll within "
        "200 ms";
    return false;
  }
  std::stable_sort(found.events.begin(), found.events.end(),
                   [](const auto& one, const auto& other) { return one.ago > other.ago; });
  return true;
}

}  // namespace weft::software
