// SPDX-License-Identifier: BSD-3-Clause
// Objects of all software providers. Each call takes the driver's lock, moves the machine, and lets
// the driver send what came of it.
#include "providers/software/context.hpp"

#include <unistd.h>

#include <algorithm>

#include "lib/base/undo.hpp"

namespace weft::software {

namespace {

class Region final : public verbs::Region {
 public:
  Region(Device device, driver::Driver& driver, uint32_t key, void* at, size_t length)
      : device_(std::move(device)), driver_(driver) {
    base = at;
    size = length;
    lkey = LKey{key};
    rkey = RKey{key};
  }
  ~Region() override { driver_.deregister_memory(lkey.value, base, size); }

 private:
  Device device_;
  driver::Driver& driver_;
};

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

Result<std::shared_ptr<verbs::Region>> Domain::register_memory(void* base, size_t size,
                                                               Access access) {
  if (driver_.forked()) return Error{Code::permission_denied, kForked};
  const Result<uint32_t> key = driver_.register_memory(base, size, access, id_);
  if (!key) return key.error();
  // A key that nobody holds would open the memory for ever.
  base::Undo undo([&] { driver_.deregister_memory(*key, base, size); });
  auto made = std::make_shared<Region>(device_, driver_, *key, base, size);
  undo.forget();
  return std::shared_ptr<verbs::Region>(std::move(made));
}

Result<Domain::Queues> Domain::queues_of(const QueuePairOptions& options) const {
  const Queues queues{ring_of(options.send_cq), ring_of(options.recv_cq)};
  const auto wrong = [&](const CompletionQueue& handle, const engine::CompletionQueue* ring) {
    return ring == nullptr &&
           (handle.impl() != nullptr || !is_xrc(options.type));  // those of XRC may lack one
  };
  if (wrong(options.send_cq, queues.send) || wrong(options.recv_cq, queues.recv))
    return Error{Code::invalid_argument,
                 "send_cq and recv_cq must be completion queues of the same open device"};
  return queues;
}

engine::CompletionQueue* Domain::ring_of(const CompletionQueue& handle) const noexcept {
  auto* const cq = dynamic_cast<Cq*>(handle.impl().get());
  return cq != nullptr && &cq->driver() == &driver_ ? &cq->handle().ring : nullptr;
}

Result<std::shared_ptr<verbs::Cq>> Context::create_cq(const Device& device,
                                                      const CompletionQueueOptions& options) {
  if (driver_.forked()) return Error{Code::permission_denied, kForked};
  std::shared_ptr<Cq> cq(new Cq(device, driver_, options, !single_thread_));
  if (cq->fd() < 0) return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  return std::shared_ptr<verbs::Cq>(std::move(cq));
}

std::optional<AsyncEvent> Context::next_event() {
  AsyncEvent event;
  if (driver_.forked() || !driver_.next_event(event)) return std::nullopt;
  return event;
}

namespace {

void append_counters(driver::Driver& driver, std::vector<Counter>& counters) {
  const engine::Counters& values = driver.machine().counters();
  for (size_t i = 0; i < engine::kCountEnd; ++i)
    counters.push_back({engine::kCountNames[i], values[static_cast<engine::Count>(i)]});
  driver.port().append_counters(counters);
}

}  // namespace

std::vector<Counter> Context::counters() const {
  std::vector<Counter> counters;
  if (driver_.forked()) return counters;
  driver::Holder hold(driver_.lock());
  append_counters(driver_, counters);
  return counters;
}

bool Context::inspect_common(verbs::Inspection& found, const std::atomic<bool>& leaving) const {
  found.at = driver_.now();
  found.counters.reserve(engine::kCountEnd + 32);
  found.events.reserve(engine::Incidents::kMost);
  const auto look = [&] {
    append_counters(driver_, found.counters);
    driver_.machine().incidents().visit([&](const engine::Incident& incident) {
      const bool failed = incident.status != Status::success;
      found.events.push_back({found.at - std::min(found.at, incident.at),
                              failed ? name(incident.status) : name(incident.event.type),
                              incident.qp});
    });
  };
  if (driver_.visit(look, leaving)) return true;
  found.note =
      "single_thread=1: only the application's own thread may look, and it did not poll within "
      "200 ms";
  return false;
}

}  // namespace weft::software
