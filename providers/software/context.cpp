// SPDX-License-Identifier: BSD-3-Clause
// See context.hpp.
#include "providers/software/context.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/log/reasons.hpp"
#include "providers/software/region.hpp"

namespace weft::software {

namespace {

// Events of the interface that all engines share: only those of engine 0 are delivered.
bool is_interface_event(EventType type) noexcept {
  return type == EventType::port_active || type == EventType::port_error ||
         type == EventType::gid_change;
}

Drivers make_drivers(Context::Ports ports, const driver::MakeMachine& make,
                     const driver::DriverOptions& options) {
  Drivers drivers;
  for (auto& port : ports) {
    drivers.push_back(std::make_unique<driver::Driver>(std::move(port), make, options));
    if (ports.size() > 1) drivers.back()->machine().keys().disable_region_invalidation();
  }
  return drivers;
}

}  // namespace

Cq::Cq(Device device, driver::Driver& driver, const CompletionQueueOptions& options, bool locked,
       uint32_t number)
    : device_(std::move(device)),
      driver_(driver),
      handle_(options.capacity, options.timestamps, locked) {
  handle_.ring.set_number(number);
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
  const driver::Holder hold(driver_.lock());
  driver_.cqs().moderate(handle_, moderation);
  return {};
}

Result<std::shared_ptr<verbs::Region>> Domain::register_memory(void* base, size_t size,
                                                               uint64_t iova, Access access) {
  return make_region({.memory = {static_cast<std::byte*>(base), size, iova}, .access = access});
}

Result<std::shared_ptr<verbs::Region>> Domain::create_null_region() {
  return make_region({.access = Access::local_write, .kind = memory::KeyKind::null_region});
}

Result<std::shared_ptr<verbs::Region>> Domain::make_region(memory::Registration registration) {
  if (forked()) return Error{Code::permission_denied, kForked};
  registration.domain = id_;
  if (const Result<void> ok = driver::Driver::check_registration(registration); !ok)
    return ok.error();
  auto made = std::make_shared<Region>(device_, drivers_, registration);
  if (const Result<void> ok = made->register_on_all(); !ok) return ok.error();
  return std::shared_ptr<verbs::Region>(std::move(made));
}

Result<Domain::Queues> Domain::queues_of(const QueuePairOptions& options) const {
  Cq* const send = cq_of(options.send_cq);
  Cq* const recv = cq_of(options.recv_cq);
  const auto wrong = [&](const CompletionQueue& handle, const Cq* cq) {
    return cq == nullptr &&
           (handle.impl() != nullptr || !is_xrc(options.type));  // optional for XRC
  };
  if (wrong(options.send_cq, send) || wrong(options.recv_cq, recv))
    return Error{Code::invalid_argument,
                 "send_cq and recv_cq must be completion queues of the same open device"};
  if (send != nullptr && recv != nullptr && &send->driver() != &recv->driver())
    return Error{Code::invalid_argument,
                 "send_cq and recv_cq are on different engines of the device: both must be on the "
                 "engine of the queue pair (CompletionQueueOptions::engine)"};
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
      drivers_(make_drivers(std::move(ports), make, options)),
      driver_(*drivers_.front()),
      faults_(drivers_,
              [this](driver::Driver& driver, bool raises) { fail_queue_pairs(driver, raises); }) {
  attributes_.engines = static_cast<uint32_t>(drivers_.size());
  if (drivers_.size() > 1) attributes_.invalidates_regions = false;
}

// Engine 0 owns the address and is destroyed last, so that no other process takes the address
// before all engines have left it.
Context::~Context() {
  stop_faults();
  if (events_ >= 0) close(events_);
  while (!drivers_.empty()) drivers_.pop_back();
}

Result<void> Context::start() {
  for (uint32_t engine = 0; engine < drivers_.size(); ++engine) {
    driver::Driver& driver = *drivers_[engine];
    driver.recorder().open(
        {.device = attributes_.spec, .address = attributes_.gid, .engine = engine}, driver.now());
    if (engine == 0) attributes_.flight_record = driver.recorder().path();
    if (const Result<void> ok = driver.start(); !ok) return ok;
  }
  if (drivers_.size() == 1) return faults_.start(attributes_.spec, single_thread_);
  events_ = epoll_create1(EPOLL_CLOEXEC);
  for (const auto& driver : drivers_) {
    epoll_event readable{.events = EPOLLIN, .data = {}};
    if (events_ < 0 || epoll_ctl(events_, EPOLL_CTL_ADD, driver->event_fd(), &readable) != 0)
      return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  }
  return faults_.start(attributes_.spec, single_thread_);
}

Result<void> Context::usable() const {
  if (driver_.forked()) return Error{Code::permission_denied, kForked};
  if (faults_.device_is_removed())
    return Error{Code::io_error, "the device was removed by fault.timeline: device=removed"};
  return {};
}

Result<PortAttributes> Context::query_port() const {
  Result<PortAttributes> port = verbs::Context::query_port();
  if (port && faults_.port_is_down()) port->state = PortState::down;
  return port;
}

Result<std::vector<GidTableEntry>> Context::query_gid_table() const {
  Result<std::vector<GidTableEntry>> table = verbs::Context::query_gid_table();
  if (table && faults_.gid_is_gone())
    std::erase_if(*table, [&](const GidTableEntry& entry) { return entry.gid == attributes_.gid; });
  return table;
}

Result<std::shared_ptr<verbs::Cq>> Context::create_cq(const Device& device,
                                                      const CompletionQueueOptions& options) {
  if (const Result<void> ok = usable(); !ok) return ok.error();
  std::shared_ptr<Cq> cq(
      new Cq(device, *drivers_[options.engine], options, !single_thread_, next_cq_++));
  if (cq->fd() < 0) return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  return std::shared_ptr<verbs::Cq>(std::move(cq));
}

std::optional<AsyncEvent> Context::next_event() {
  if (driver_.forked()) return std::nullopt;
  for (const auto& driver : drivers_) {
    AsyncEvent event;
    while (driver->next_event(event))
      if (driver == drivers_.front() || !is_interface_event(event.type)) return event;
  }
  return std::nullopt;
}

namespace {

// The counters of all engines.
struct Totals {
  transport::Counters machines;
  std::vector<Counter> ports, some;

  // Under the driver's lock; sum() without it.
  void collect(driver::Driver& driver) {
    some.clear();
    machines.merge(driver.machine().counters());
    driver.port().append_counters(some);
  }
  void sum() { transport::add_counters(ports, some); }
  std::vector<Counter> all() const {
    std::vector<Counter> all;
    all.reserve(transport::kCountEnd + ports.size());
    for (size_t i = 0; i < transport::kCountEnd; ++i)
      all.push_back({transport::kCountNames[i], machines[static_cast<transport::Count>(i)]});
    all.insert(all.end(), ports.begin(), ports.end());
    return all;
  }
};

// What to do, or what says that the peer is gone.
std::string_view why(const transport::Incident& incident) {
  if (incident.status == Status::success) return base::reason(incident.event.type);
  if (incident.sign != transport::PeerSign::none) return transport::text_of(incident.sign);
  return reason(incident.status);
}

}  // namespace

std::vector<Counter> Context::counters() const {
  if (driver_.forked()) return {};
  Totals totals;
  for (const auto& driver : drivers_) {
    {
      driver::Holder hold(driver->lock());
      totals.collect(*driver);
    }
    totals.sum();
  }
  std::vector<Counter> all = totals.all();
  faults_.append_counters(all);
  return all;
}

bool Context::inspect_common(verbs::Inspection& found, const std::atomic<bool>& closing) const {
  found.at = driver_.now();
  found.events.reserve(transport::Incidents::kMost * drivers_.size());
  Totals totals;
  totals.some.reserve(64);
  for (const auto& driver : drivers_) {
    const auto inspect = [&] {
      totals.collect(*driver);
      driver->machine().incidents().visit([&](const transport::Incident& incident) {
        const bool failed = incident.status != Status::success;
        found.events.push_back({found.at - std::min(found.at, incident.at),
                                failed ? name(incident.status) : name(incident.event.type),
                                incident.qp, why(incident), incident.peer});
      });
    };
    if (driver->run_exclusive(inspect, closing)) {
      totals.sum();
      continue;
    }
    found.note =
        "single_thread=1: only the application's own thread may read the state, and it did not "
        "poll "
        "within 200 ms";
    return false;
  }
  found.counters = totals.all();
  faults_.append_counters(found.counters);
  std::stable_sort(found.events.begin(), found.events.end(),
                   [](const auto& one, const auto& other) { return one.ago > other.ago; });
  return true;
}

}  // namespace weft::software
