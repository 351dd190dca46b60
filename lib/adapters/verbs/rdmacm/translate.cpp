// SPDX-License-Identifier: BSD-3-Clause
// Events of weft's connection manager become events of rdma_cma.h. A response connects the queue
// pair of the id; without one the program does that (RDMA_CM_EVENT_CONNECT_RESPONSE).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/channel.hpp"
#include "lib/adapters/verbs/rdmacm/id.hpp"
#include "lib/adapters/verbs/rdmacm/queue_pair.hpp"

namespace weft::rdmacm {

namespace {

// Values of a SIDR_REP (IBTA 12.11.2), which are the status of RDMA_CM_EVENT_UNREACHABLE.
constexpr int kSidrUnsupported = 1, kSidrRejected = 2, kSidrNoQueuePair = 3;

constexpr size_t kMostEarlyRequests = 128;  // further ones are rejected

std::unique_ptr<Event> event_of(Id& id, rdma_cm_event_type type, const CmEvent& from) {
  auto event = std::make_unique<Event>();
  event->event.id = &id.id;
  event->event.event = type;
  event->counted_at = &id;
  event->private_data = from.peer.private_data;
  const void* const data = event->private_data.empty() ? nullptr : event->private_data.data();
  const auto length = static_cast<uint8_t>(std::min<size_t>(event->private_data.size(), 255));
  if (is_of_datagrams(id)) {
    event->event.param.ud.private_data = data;
    event->event.param.ud.private_data_len = length;
  } else {
    event->event.param.conn.private_data = data;
    event->event.param.conn.private_data_len = length;
  }
  return event;
}

// Each side's responder resources are the other's initiator depth.
void set_peer(rdma_conn_param& out, const CmEvent& from) {
  out.responder_resources = from.peer.initiator_depth;
  out.initiator_depth = from.peer.responder_resources;
  out.retry_count = from.peer.retry_count;
  out.rnr_retry_count = from.peer.rnr_retry;
  out.flow_control = 1;
  if (!from.queue_pair) return;
  out.qp_num = from.queue_pair->number.value;
  out.srq = from.queue_pair->shared_receives;
}

void on_request(Channel& channel, Context& context, const CmEvent& from) {
  const auto found = channel.ids.find(from.listener.impl().get());
  if (found == channel.ids.end()) return;  // destroying the request's id rejects it
  Id& listener = *found->second;
  if (listener.devices.empty()) {  // it is bound, and does not listen yet
    if (listener.early.requests.size() < kMostEarlyRequests)
      listener.early.requests.emplace_back(&context, from);
    return;
  }
  Id* const made = new_request(listener, context, from);
  if (made == nullptr) return;
  auto event = event_of(*made, RDMA_CM_EVENT_CONNECT_REQUEST, from);
  event->event.listen_id = &listener.id;
  event->counted_at = &listener;
  if (!is_of_datagrams(*made)) {
    set_peer(event->event.param.conn, from);
    made->responder_resources = event->event.param.conn.responder_resources;
    made->initiator_depth = event->event.param.conn.initiator_depth;
  }
  push(channel, std::move(event));
}

void on_response(Channel& channel, Id& id, const CmEvent& from) {
  rdma_cm_event_type type = RDMA_CM_EVENT_CONNECT_RESPONSE;
  if (id.id.qp != nullptr) {
    type = RDMA_CM_EVENT_ESTABLISHED;
    int error = move_to_rts(id);
    if (error == 0 && !cm_of(id).establish()) return;  // the next event says why
    if (error != 0) {
      (void)cm_of(id).reject();
      id.ended = true;
      return push(channel, id, RDMA_CM_EVENT_CONNECT_ERROR, -error);
    }
  }
  auto event = event_of(id, type, from);
  set_peer(event->event.param.conn, from);
  push(channel, std::move(event));
}

void on_established(Channel& channel, Id& id, const CmEvent& from) {
  auto event = event_of(id, RDMA_CM_EVENT_ESTABLISHED, from);
  if (from.service) {
    rdma_ud_param& ud = event->event.param.ud;
    ud.qp_num = from.service->qpn.value;
    ud.qkey = from.service->qkey;
    ud.ah_attr = ah_attributes(*id.context, from.service->path);
  }
  push(channel, std::move(event));
}

int sidr_status(uint16_t reason) {
  if (reason == kCmNoListener) return kSidrUnsupported;
  return reason == kCmConsumer ? kSidrRejected : kSidrNoQueuePair;
}

void on_end(Channel& channel, Id& id, const CmEvent& from) {
  id.ended = true;
  rdma_cm_event_type type = RDMA_CM_EVENT_DISCONNECTED;
  int status = 0;
  switch (from.type) {
    case CmEventType::rejected:
      type = is_of_datagrams(id) ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED;
      status = is_of_datagrams(id) ? sidr_status(from.reason) : from.reason;
      break;
    case CmEventType::unreachable:
      type = RDMA_CM_EVENT_UNREACHABLE;
      status = -ETIMEDOUT;
      break;
    case CmEventType::connect_error:
      type = RDMA_CM_EVENT_CONNECT_ERROR;
      status = -errno_of(from.error ? from.error->code : Code::io_error);
      break;
    default:
      break;
  }
  auto event = event_of(id, type, from);
  event->event.status = status;
  push(channel, std::move(event));
}

}  // namespace

void translate(Channel& channel, Context& context, const CmEvent& event) {
  if (event.type == CmEventType::connect_request) return on_request(channel, context, event);
  const auto found = channel.ids.find(event.id.impl().get());
  if (found == channel.ids.end()) return;
  Id& id = *found->second;
  switch (event.type) {
    case CmEventType::address_resolved:
      return push(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    case CmEventType::route_resolved:
      return push(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    case CmEventType::connect_request:
      return;
    case CmEventType::connect_response:
      return on_response(channel, id, event);
    case CmEventType::established:
      return on_established(channel, id, event);
    case CmEventType::rejected:
    case CmEventType::unreachable:
    case CmEventType::connect_error:
    case CmEventType::disconnected:
      return on_end(channel, id, event);
  }
}

}  // namespace weft::rdmacm
