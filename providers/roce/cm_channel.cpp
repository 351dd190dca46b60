// SPDX-License-Identifier: BSD-3-Clause
// The channel: its event fd, its events and the ids that they belong to. See cm_channel.hpp.
#include "providers/roce/cm_channel.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/memory_permitting.hpp"

namespace weft::roce_provider {

namespace {
constexpr Duration kSpin = Duration::from_us(50);  // a response on loopback takes less
}  // namespace

Result<std::shared_ptr<verbs::CmChannel>> ConnectionChannel::create(const Device& device,
                                                                    RoceContext& context) {
  auto channel = std::make_shared<ConnectionChannel>(device, context);
  if (channel->fd_ < 0)
    return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  return std::shared_ptr<verbs::CmChannel>(std::move(channel));
}

ConnectionChannel::ConnectionChannel(const Device& device, RoceContext& context)
    : device_(device), context_(context), fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  inbox_.context = this;
  inbox_.wake = [](void* channel) { static_cast<ConnectionChannel*>(channel)->signal(); };
}

// Every id is destroyed; the inbox may hold requests that the application has not taken.
ConnectionChannel::~ConnectionChannel() {
  if (!context_.forked())
    context_.with_agent([this](cm::Agent& agent, Instant now) {
      cm::Event event;
      while (agent.next(inbox_, event)) agent.release(event.id, now);
      return true;
    });
  if (fd_ >= 0) close(fd_);
}

int ConnectionChannel::fd() const noexcept {
  if (!context_.forked()) (void)context_.start_background_progress();
  return fd_;
}

void ConnectionChannel::signal() noexcept {
  const uint64_t one = 1;
  if (write(fd_, &one, sizeof one) < 0) return;  // the counter is at its maximum: readable already
}

Result<std::shared_ptr<verbs::CmId>> ConnectionChannel::create_id(CmService service) {
  return std::shared_ptr<verbs::CmId>(std::make_shared<ConnectionId>(shared_from_this(), service));
}

void ConnectionChannel::post(CmEventType type, const std::shared_ptr<ConnectionId>& id) {
  const std::lock_guard hold(mutex_);
  posted_.emplace_back(type, id);
  signal();
}

void ConnectionChannel::register_id(uint32_t number, const std::shared_ptr<ConnectionId>& id) {
  const std::lock_guard hold(mutex_);
  ids_[number] = id;
}
void ConnectionChannel::unregister_id(uint32_t number) {
  const std::lock_guard hold(mutex_);
  ids_.erase(number);
}
void ConnectionChannel::register_listener(uint64_t service,
                                          const std::shared_ptr<ConnectionId>& id) {
  const std::lock_guard hold(mutex_);
  listeners_[service] = id;
}
void ConnectionChannel::unregister_listener(uint64_t service) {
  const std::lock_guard hold(mutex_);
  listeners_.erase(service);
}

void ConnectionChannel::move(const std::shared_ptr<ConnectionId>& id, uint32_t number,
                             std::optional<uint64_t> service, ConnectionChannel& to) {
  std::deque<std::pair<CmEventType, std::weak_ptr<ConnectionId>>> moved;
  {
    const std::lock_guard hold(mutex_);
    const auto kept = std::stable_partition(posted_.begin(), posted_.end(), [&](const auto& event) {
      return event.second.lock() != id;
    });
    moved.assign(kept, posted_.end());
    posted_.erase(kept, posted_.end());
  }
  if (service) unregister_listener(*service);
  if (number != 0) unregister_id(number);
  if (service) to.register_listener(*service, id);
  if (number != 0) to.register_id(number, id);
  {
    const std::lock_guard hold(to.mutex_);
    to.posted_.insert(to.posted_.end(), moved.begin(), moved.end());
  }
  const bool has_events = context_.with_agent([&](cm::Agent& agent, Instant) {
    if (number != 0) agent.move(number, to.inbox_);
    if (service) agent.move_service(*service, to.inbox_);
    return !to.inbox_.queue.empty();
  });
  if (has_events || !moved.empty()) to.signal();
}

std::optional<CmEvent> ConnectionChannel::translate(cm::Event& event) {
  if (event.kind != cm::EventKind::request) {
    std::shared_ptr<ConnectionId> id;
    {
      const std::lock_guard hold(mutex_);
      const auto found = ids_.find(event.id);
      if (found != ids_.end()) id = found->second.lock();
    }
    return id != nullptr ? id->on_event(event) : std::nullopt;
  }
  const std::shared_ptr<ConnectionId> id = create_passive_id(event);
  if (id == nullptr) return std::nullopt;
  std::shared_ptr<ConnectionId> listener;
  {
    const std::lock_guard hold(mutex_);
    const auto found = listeners_.find(event.service_id);
    if (found != listeners_.end()) listener = found->second.lock();
  }
  if (listener == nullptr)
    return std::nullopt;  // it no longer listens: the destructor of `id` rejects
  std::optional<CmEvent> request = id->on_event(event);
  if (request) request->listener = weft::CmId(listener);
  return request;
}

// Creates the id of a passive connection. Null: there is no memory for one; the request is
// rejected.
std::shared_ptr<ConnectionId> ConnectionChannel::create_passive_id(const cm::Event& request) {
  std::shared_ptr<ConnectionId> id;
  const bool kept = base::memory_permitting([&] {
    id = std::make_shared<ConnectionId>(shared_from_this(), request);
    register_id(request.id, id);
  });
  if (kept) return id;
  if (id == nullptr)  // else the destructor of `id` does it
    context_.with_agent(
        [&](cm::Agent& agent, Instant now) { return agent.release(request.id, now), true; });
  return nullptr;
}

std::optional<CmEvent> ConnectionChannel::take() {
  for (;;) {
    {
      std::shared_ptr<ConnectionId> id;  // the last reference is dropped after the lock
      const std::lock_guard hold(mutex_);
      while (!posted_.empty() && id == nullptr) {
        CmEvent event;
        event.type = posted_.front().first;
        id = posted_.front().second.lock();
        posted_.pop_front();
        if (id == nullptr) continue;  // the id was destroyed
        event.id = weft::CmId(id);
        return event;
      }
    }
    const std::lock_guard turn(take_mutex_);
    cm::Event event;
    const bool found =
        context_.with_agent([&](cm::Agent& agent, Instant) { return agent.next(inbox_, event); });
    if (!found) return std::nullopt;
    if (std::optional<CmEvent> translated = translate(event)) return translated;
  }
}

// The event fd is read before the second take(), so that an event added in between is not missed.
std::optional<CmEvent> ConnectionChannel::next() {
  if (context_.forked()) return std::nullopt;
  context_.progress();
  if (std::optional<CmEvent> event = take()) return event;
  uint64_t count;
  if (read(fd_, &count, sizeof count) < 0) return std::nullopt;
  std::optional<CmEvent> event = take();
  if (event) signal();  // there may be more
  return event;
}

std::optional<CmEvent> ConnectionChannel::wait(Duration limit) {
  const Instant begin = context_.now();
  for (;;) {
    if (context_.forked()) return std::nullopt;
    if (std::optional<CmEvent> event = next()) return event;
    const Duration spent = context_.now() - begin;
    if (spent >= limit) return std::nullopt;
    if (spent < kSpin || !context_.start_background_progress()) continue;
    const int64_t ms = std::clamp<int64_t>((limit - spent).ms() + 1, 1, 1000);
    pollfd p{fd_, POLLIN, 0};
    (void)poll(&p, 1, static_cast<int>(ms));
  }
}

}  // namespace weft::roce_provider
