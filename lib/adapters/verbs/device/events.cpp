// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events. The events of a device are sorted into the queues of its contexts by the
// thread that asks first: an event of a queue goes to the context that created it, one of the port
// to all. The destruction of a queue waits until its events are acknowledged.
#include "lib/adapters/verbs/device/events.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

ibv_event_type type_of(EventType type) noexcept {
  switch (type) {
    case EventType::qp_fatal:
      return IBV_EVENT_QP_FATAL;
    case EventType::qp_request_error:
      return IBV_EVENT_QP_REQ_ERR;
    case EventType::qp_access_error:
      return IBV_EVENT_QP_ACCESS_ERR;
    case EventType::comm_established:
      return IBV_EVENT_COMM_EST;
    case EventType::sq_drained:
      return IBV_EVENT_SQ_DRAINED;
    case EventType::last_wqe_reached:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    case EventType::srq_limit_reached:
      return IBV_EVENT_SRQ_LIMIT_REACHED;
    case EventType::cq_error:
      return IBV_EVENT_CQ_ERR;
    case EventType::port_active:
      return IBV_EVENT_PORT_ACTIVE;
    case EventType::port_error:
      return IBV_EVENT_PORT_ERR;
    case EventType::gid_change:
      return IBV_EVENT_GID_CHANGE;
    default:
      return IBV_EVENT_DEVICE_FATAL;
  }
}

// Of the queue that an event is of; null for events of the port and the device.
const ibv_context* context_of_event(const ibv_async_event& event) noexcept {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq->context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq->context;
    default:
      return nullptr;
  }
}

void queue_event(Context& context, const ibv_async_event& event) {
  context.events.push_back(event);
  eventfd_write(context.event_ready, 1);
}

// Under entry.lock.
void sort_event(DeviceEntry& entry, const AsyncEvent& from) {
  ibv_async_event event{.element = {.port_num = 1}, .event_type = type_of(from.type)};
  switch (from.type) {
    case EventType::qp_fatal:
    case EventType::qp_request_error:
    case EventType::qp_access_error:
    case EventType::comm_established:
    case EventType::sq_drained:
    case EventType::last_wqe_reached: {
      const auto range = entry.qps.equal_range(from.qp.value);
      for (auto at = range.first; at != range.second; ++at) {
        event.element.qp = &at->second->qp.qp_base;
        queue_event(*at->second->context, event);
      }
      return;
    }
    case EventType::srq_limit_reached: {
      const auto found = entry.srqs.find(from.shared_queue);
      if (found == entry.srqs.end()) return;
      event.element.srq = &found->second->srq;
      return queue_event(*found->second->context, event);
    }
    case EventType::cq_error: {
      const auto found = entry.cqs.find(from.completion_queue);
      if (found == entry.cqs.end()) return;
      event.element.cq = cq_of(*found->second);
      return queue_event(*found->second->context, event);
    }
    default:
      for (Context* context : entry.contexts) queue_event(*context, event);
  }
}

// Counts the event in its queue, whose destruction waits for the acknowledgement from now on.
void report(const ibv_async_event& event) noexcept {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      ++of(event.element.cq).async_events_reported;
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      ++of(event.element.qp).async_events_reported;
      break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      ++of(event.element.srq).async_events_reported;
      break;
    default:
      break;
  }
}

bool take(Context& context, ibv_async_event& event) {
  DeviceEntry& entry = *context.entry;
  const std::lock_guard guard(entry.lock);
  while (const auto next = context.device.next_event()) sort_event(entry, *next);
  if (context.events.empty()) return false;
  event = context.events.front();
  context.events.pop_front();
  report(event);
  if (context.events.empty()) {
    eventfd_t count;
    eventfd_read(context.event_ready, &count);
  }
  return true;
}

}  // namespace

// poll(2) ends at each signal, and does not say which it was. Handlers of faults do not count: they
// interrupt no call.
bool signals_end_calls() noexcept {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action;
    if (signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
        ::sigaction(signal, nullptr, &action) != 0)
      continue;
    const bool has_handler = action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
    if (has_handler && (action.sa_flags & SA_RESTART) == 0) {
      errno = EINTR;
      return true;
    }
  }
  return false;
}

void drop_events_of(Context& context, const void* queue) noexcept {
  std::erase_if(context.events, [&](const ibv_async_event& event) {
    const bool is_of_port =
        event.event_type == IBV_EVENT_PORT_ACTIVE || event.event_type == IBV_EVENT_PORT_ERR ||
        event.event_type == IBV_EVENT_GID_CHANGE || event.event_type == IBV_EVENT_DEVICE_FATAL;
    return !is_of_port && event.element.qp == queue;
  });
  if (!context.events.empty()) return;
  eventfd_t count;
  eventfd_read(context.event_ready, &count);
}

bool wait_readable(int fd) {
  if ((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0) {
    errno = EAGAIN;
    return false;
  }
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  for (;;) {
    if (::poll(&polled, 1, -1) >= 0) return true;
    if (errno != EINTR || signals_end_calls()) return false;
  }
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

bool weft_verbs_wait_readable(int fd) { return wait_readable(fd); }
bool weft_verbs_signals_end_calls() { return signals_end_calls(); }

int ibv_get_async_event(ibv_context* verbs, ibv_async_event* event) {
  WEFT_FORWARD(verbs, ibv_get_async_event, verbs, event);
  for (;;) {
    const int error = without_exceptions(
        "ibv_get_async_event", [&] { return take(context_of(verbs), *event) ? 0 : EAGAIN; });
    if (error == 0) return 0;
    if (error != EAGAIN || !wait_readable(verbs->async_fd)) return -1;
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  if (const ibv_context* context = context_of_event(*event))
    WEFT_FORWARD(context, ibv_ack_async_event, event);
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      return acknowledge(*event->element.cq, &ibv_cq::async_events_completed, 1);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return acknowledge(*event->element.qp, &ibv_qp::events_completed, 1);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return acknowledge(*event->element.srq, &ibv_srq::events_completed, 1);
    default:
      return;
  }
}
