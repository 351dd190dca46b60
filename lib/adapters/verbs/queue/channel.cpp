// SPDX-License-Identifier: BSD-3-Clause
// Completion channels. Their descriptor is an epoll descriptor over those of the completion queues,
// so that a program may poll it, set it O_NONBLOCK and watch it by another epoll.
#include "lib/adapters/verbs/queue/channel.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <memory>

#include "lib/adapters/verbs/device/events.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

// The queue of the oldest event, or null.
Cq* take(Channel& channel) noexcept {
  const std::lock_guard guard(channel.lock);
  epoll_event event;
  if (::epoll_wait(channel.channel.fd, &event, 1, 0) != 1) return nullptr;
  auto& cq = *static_cast<Cq*>(event.data.ptr);
  cq.queue.acknowledge();
  ++cq.events_reported;
  return &cq;
}

}  // namespace

int add_to_channel(Cq& cq) noexcept {
  Channel& channel = of(cq.cq.channel);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &cq}};
  if (::epoll_ctl(channel.channel.fd, EPOLL_CTL_ADD, cq.queue.fd(), &event) != 0) return errno;
  pthread_mutex_lock(&cq.context->verbs.context.mutex);
  ++channel.channel.refcnt;
  pthread_mutex_unlock(&cq.context->verbs.context.mutex);
  return 0;
}

uint32_t remove_from_channel(Cq& cq) noexcept {
  if (cq.cq.channel == nullptr) return 0;
  Channel& channel = of(cq.cq.channel);
  const std::lock_guard guard(channel.lock);
  epoll_event event{};
  ::epoll_ctl(channel.channel.fd, EPOLL_CTL_DEL, cq.queue.fd(), &event);
  pthread_mutex_lock(&cq.context->verbs.context.mutex);
  --channel.channel.refcnt;
  pthread_mutex_unlock(&cq.context->verbs.context.mutex);
  return cq.events_reported;
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_comp_channel* ibv_create_comp_channel(ibv_context* verbs) {
  WEFT_FORWARD(verbs, ibv_create_comp_channel, verbs);
  constexpr const char* kCall = "ibv_create_comp_channel";
  return without_exceptions(kCall, [&]() -> ibv_comp_channel* {
    auto channel =
        std::unique_ptr<Channel>(new Channel{.channel = {.context = verbs, .fd = -1, .refcnt = 0}});
    adopt(context_of(verbs), channel.get(), Kind::channel);
    channel->channel.fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (channel->channel.fd < 0) {
      const int error = errno;
      forget(channel.get());
      release(context_of(verbs));
      return refuse_null<ibv_comp_channel>(error, kCall, "cannot create a descriptor");
    }
    return &channel.release()->channel;
  });
}

int ibv_destroy_comp_channel(ibv_comp_channel* verbs) {
  WEFT_FORWARD(verbs->context, ibv_destroy_comp_channel, verbs);
  constexpr const char* kCall = "ibv_destroy_comp_channel";
  if (const int error = check_exists(kCall, verbs, Kind::channel)) return error;
  Context& context = context_of(verbs->context);
  pthread_mutex_lock(&verbs->context->mutex);
  const int queues = verbs->refcnt;
  pthread_mutex_unlock(&verbs->context->mutex);
  if (queues != 0) return refuse(EBUSY, kCall, "%d completion queues use it", queues);
  ::close(verbs->fd);
  forget(verbs);
  delete &of(verbs);
  release(context);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* verbs, ibv_cq** cq, void** cq_context) {
  WEFT_FORWARD(verbs->context, ibv_get_cq_event, verbs, cq, cq_context);
  Cq* found = take(of(verbs));
  while (found == nullptr) {
    if (!wait_readable(verbs->fd)) return -1;
    found = take(of(verbs));
  }
  *cq = cq_of(*found);
  *cq_context = found->cq.cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  WEFT_FORWARD(cq->context, ibv_ack_cq_events, cq, count);
  acknowledge(*cq, &ibv_cq::comp_events_completed, count);
}
