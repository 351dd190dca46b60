// SPDX-License-Identifier: BSD-3-Clause
// Synchronous use in few calls: rdma_create_ep() makes an id, its addresses and its queue pair from
// an rdma_addrinfo, and rdma_get_request() waits for a connection.
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/channel.hpp"
#include "lib/adapters/verbs/rdmacm/id.hpp"

namespace weft::rdmacm {

namespace {

constexpr int kResolveTimeoutMs = 2000;

int begin_passive(Id& id, const rdma_addrinfo& info, ibv_pd* pd, const ibv_qp_init_attr* qp) {
  if (rdma_bind_addr(&id.id, info.ai_src_addr) != 0) return -1;
  if (pd != nullptr) id.id.pd = pd;
  if (qp == nullptr) return 0;
  id.request_qp = *qp;
  id.request_qp->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  return 0;
}

int begin_active(Id& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* qp) {
  if (rdma_resolve_addr(&id.id, info.ai_src_addr, info.ai_dst_addr, kResolveTimeoutMs) != 0 ||
      rdma_resolve_route(&id.id, kResolveTimeoutMs) != 0)
    return -1;
  if (qp != nullptr) {
    qp->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
    if (rdma_create_qp(&id.id, pd, qp) != 0) return -1;
  }
  if (info.ai_connect_len != 0) {
    const auto* const data = static_cast<const std::byte*>(info.ai_connect);
    id.connect_data.assign(data, data + info.ai_connect_len);
  }
  return 0;
}

}  // namespace

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* res, ibv_pd* pd,
                   ibv_qp_init_attr* qp_init_attr) {
  return guarded("rdma_create_ep", [&] {
    if (id == nullptr || res == nullptr)
      return refuse(EINVAL, "rdma_create_ep", "id or res is null");
    Id* const made = new_id(nullptr, nullptr, static_cast<rdma_port_space>(res->ai_port_space),
                            static_cast<ibv_qp_type>(res->ai_qp_type));
    if (made == nullptr) return -1;
    const int result = (res->ai_flags & RAI_PASSIVE) != 0
                           ? begin_passive(*made, *res, pd, qp_init_attr)
                           : begin_active(*made, *res, pd, qp_init_attr);
    if (result == 0) {
      *id = &made->id;
      return 0;
    }
    const int error = errno;
    rdma_destroy_ep(&made->id);
    errno = error;
    return -1;
  });
}

void rdma_destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  if (id->srq != nullptr) rdma_destroy_srq(id);
  (void)rdma_destroy_id(id);
}

int rdma_get_request(rdma_cm_id* listen, rdma_cm_id** id) try {
  constexpr const char* kCall = "rdma_get_request";
  Id& listener = of(listen);
  if (!listener.synchronous)
    return refuse(EINVAL, kCall, "the listener reports to an event channel: rdma_get_cm_event");
  if (listen->event != nullptr) rdma_ack_cm_event(listen->event);
  listen->event = nullptr;
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listen->channel, &event) != 0) return -1;
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    listen->event = event;
    return refuse(event->status != 0 ? std::abs(event->status) : EINVAL, kCall,
                  rdma_event_str(event->event));
  }
  if (listener.request_qp) {
    ibv_qp_init_attr attr = *listener.request_qp;
    if (rdma_create_qp(event->id, listen->pd, &attr) != 0) {
      const int error = errno;
      listen->event = event;
      (void)rdma_destroy_id(event->id);
      errno = error;
      return -1;
    }
  }
  *id = event->id;
  (*id)->event = event;
  return 0;
} catch (const std::bad_alloc&) {
  return refuse(ENOMEM, "rdma_get_request", "out of memory");
}
