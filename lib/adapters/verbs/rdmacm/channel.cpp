// SPDX-License-Identifier: BSD-3-Clause
// Event channels: see channel.hpp.
#include "lib/adapters/verbs/rdmacm/channel.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "lib/adapters/verbs/rdmacm/calls.hpp"

namespace weft::rdmacm {

namespace {

bool watch(const Channel& channel, int fd) noexcept {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.fd = fd;
  return epoll_ctl(channel.channel.fd, EPOLL_CTL_ADD, fd, &wanted) == 0;
}

// The oldest event; null: there is none.
std::unique_ptr<Event> take(Channel& channel) {
  const NotCancelled whole;
  const std::lock_guard turn(channel.turn);
  collect(channel);
  if (channel.queue.empty()) return nullptr;
  std::unique_ptr<Event> event = std::move(channel.queue.front());
  channel.queue.pop_front();
  update_ready(channel);
  const std::lock_guard hold(event->counted_at->lock);
  ++event->counted_at->events_reported;
  return event;
}

}  // namespace

Channel* open_channel() {
  auto made = std::make_unique<Channel>();
  made->channel.fd = epoll_create1(EPOLL_CLOEXEC);
  made->ready = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (made->channel.fd >= 0 && made->ready >= 0 && watch(*made, made->ready)) return made.release();
  const int error = errno;
  close_channel(made.release());
  refuse(error, "rdma_create_event_channel", "no descriptor: raise `ulimit -n`");
  return nullptr;
}

void close_channel(Channel* channel) noexcept {
  if (channel->ready >= 0) close(channel->ready);
  if (channel->channel.fd >= 0) close(channel->channel.fd);
  delete channel;
}

Result<CmChannel> channel_on(Channel& channel, Context& context) {
  for (const Channel::OfDevice& known : channel.devices)
    if (known.context == &context) return known.channel;
  Result<CmChannel> made = CmChannel::create(context.device);
  if (!made) return made;
  if (!watch(channel, made->fd()))
    return Error{Code::no_memory, "no more descriptors: raise `ulimit -n`"};
  channel.devices.push_back({&context, *made});
  return made;
}

void add_id(Channel& channel, Id& id, const CmId& cm) { channel.ids[cm.impl().get()] = &id; }
void remove_id(Channel& channel, const CmId& cm) { channel.ids.erase(cm.impl().get()); }

void update_ready(Channel& channel) noexcept {
  uint64_t count = 1;
  if (channel.queue.empty())
    (void)!read(channel.ready, &count, sizeof count);
  else
    (void)!write(channel.ready, &count, sizeof count);
}

void push(Channel& channel, std::unique_ptr<Event> event) {
  channel.queue.push_back(std::move(event));
  update_ready(channel);
}

void push(Channel& channel, Id& id, rdma_cm_event_type type, int status) {
  auto event = std::make_unique<Event>();
  event->event.id = &id.id;
  event->event.event = type;
  event->event.status = status;
  event->counted_at = &id;
  push(channel, std::move(event));
}

void collect(Channel& channel) {
  for (const Channel::OfDevice& device : channel.devices)
    while (const std::optional<CmEvent> event = device.channel.next())
      translate(channel, *device.context, *event);
}

bool has_queued_event(Id& id) {
  Channel& channel = channel_of(id);
  const std::lock_guard turn(channel.turn);
  return std::any_of(channel.queue.begin(), channel.queue.end(),
                     [&](const auto& event) { return event->event.id == &id.id; });
}

void wait_for_acknowledgements(Id& id) {
  std::unique_lock hold(id.lock);
  id.acknowledged.wait(hold, [&] { return id.events_completed >= id.events_reported; });
}

int complete(Id& id) {
  if (!id.synchronous) return 0;
  if (id.id.event != nullptr) rdma_ack_cm_event(id.id.event);
  id.id.event = nullptr;
  if (rdma_get_cm_event(id.id.channel, &id.id.event) != 0) return -1;
  const rdma_cm_event& event = *id.id.event;
  if (event.status == 0) return 0;
  errno = event.event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : std::abs(event.status);
  return -1;
}

// The queues are those of both channels; two moves in opposite directions do not deadlock.
Result<void> move_id(Id& id, Channel& to) {
  Channel& from = channel_of(id);
  const std::scoped_lock turns(from.turn, to.turn);
  std::vector<Id::OnDevice> all = id.devices;
  all.insert(all.end(), id.early.devices.begin(), id.early.devices.end());
  for (const auto& [context, cm] : all) {
    const Result<CmChannel> next = channel_on(to, *context);
    if (!next) return next.error();
    if (const Result<void> moved = cm.migrate(*next); !moved) return moved;
    remove_id(from, cm);
    add_id(to, id, cm);
  }
  for (auto at = from.queue.begin(); at != from.queue.end();) {
    if ((*at)->counted_at != &id) {
      ++at;
      continue;
    }
    to.queue.push_back(std::move(*at));
    at = from.queue.erase(at);
  }
  update_ready(from);
  update_ready(to);
  id.id.channel = &to.channel;
  return {};
}

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

rdma_event_channel* rdma_create_event_channel() {
  return guarded<rdma_event_channel*>("rdma_create_event_channel", nullptr,
                                      []() -> rdma_event_channel* {
                                        Channel* const made = open_channel();
                                        return made != nullptr ? &made->channel : nullptr;
                                      });
}

void rdma_destroy_event_channel(rdma_event_channel* channel) { close_channel(&of(channel)); }

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) try {
  if (channel == nullptr || event == nullptr)
    return refuse(EINVAL, "rdma_get_cm_event", "channel or event is null");
  for (;;) {
    if (std::unique_ptr<Event> taken = take(of(channel))) {
      *event = &taken.release()->event;
      return 0;
    }
    if (!weft_verbs_wait_readable(channel->fd)) return -1;
  }
} catch (const std::bad_alloc&) {
  return refuse(ENOMEM, "rdma_get_cm_event", "out of memory");
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return refuse(EINVAL, "rdma_ack_cm_event", "event is null");
  const std::unique_ptr<Event> whole(&of(event));
  Id& id = *whole->counted_at;
  const std::lock_guard hold(id.lock);
  ++id.events_completed;
  id.acknowledged.notify_all();  // under the lock: the id may be freed as soon as it is released
  return 0;
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return guarded("rdma_migrate_id", [&] {
    Id& self = of(id);
    if (channel == nullptr && self.synchronous) return 0;
    Channel* const next = channel != nullptr ? &of(channel) : open_channel();
    if (next == nullptr) return -1;
    if (self.synchronous && id->event != nullptr) {
      rdma_ack_cm_event(id->event);
      id->event = nullptr;
    }
    Channel* const old = &channel_of(self);
    if (next == old) return 0;
    if (const weft::Result<void> moved = move_id(self, *next); !moved) {
      if (channel == nullptr) close_channel(next);
      return refuse("rdma_migrate_id", moved.error());
    }
    if (self.synchronous) close_channel(old);
    self.synchronous = channel == nullptr;
    wait_for_acknowledgements(self);
    return 0;
  });
}

const char* rdma_event_str(rdma_cm_event_type event) {
  static constexpr const char* kNames[] = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
      "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
      "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
      "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
      "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
      "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
  const auto index = static_cast<size_t>(event);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN EVENT";
}
