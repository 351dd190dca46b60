// SPDX-License-Identifier: BSD-3-Clause
// One connection over librdmacm: what the events of rdma_cm mean to the application.
#include <cerrno>
#include <cstdlib>

#include "lib/base/guarded.hpp"
#include "lib/base/socket_gid.hpp"
#include "providers/ibverbs/cm/cm_channel.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

// SIDR says it with a status of its own (IBTA 12.11.1), of which programs look at two.
uint16_t reason_of_status(int status) {
  if (status == 1) return kCmNoListener;
  return status == 2 ? kCmConsumer : 0;
}

}  // namespace

void CmId::record_addresses() {
  const CmLibrary& library = channel_->library();
  facts_.port = ntohs(library.get_src_port(id_));
  facts_.peer = base::gid_of(id_->route.addr.dst_storage);
  facts_.peer_port = ntohs(library.get_dst_port(id_));
}

void CmId::on_request(const ReceivedEvent& request) {
  const std::lock_guard hold(mutex_);
  phase_ = Phase::request_received;
  record_addresses();
  peer_parameters_ = request.peer;
  facts_.peer_qpn = request.qpn;
  if (service_ == CmService::datagrams) return;
  ibv_qp_attr said{};
  said.qp_state = IBV_QPS_RTR;
  int mask = 0;
  facts_.path_mtu = device().attributes().active_mtu;
  if (channel_->library().init_qp_attr(id_, &said, &mask) == 0 && (mask & IBV_QP_PATH_MTU))
    facts_.path_mtu = mtu_from_verbs(said.path_mtu);
  peer_parameters_.path_mtu = facts_.path_mtu;
  if (mask & IBV_QP_AV) peer_parameters_.traffic_class = said.ah_attr.grh.traffic_class;
  said.qp_state = IBV_QPS_RTS;
  if (channel_->library().init_qp_attr(id_, &said, &mask) == 0 && (mask & IBV_QP_TIMEOUT))
    peer_parameters_.timeout = said.timeout;
}

CmEvent CmId::event_of(CmEventType type) {
  CmEvent event;
  event.type = type;
  event.id = weft::CmId(shared_from_this());
  return event;
}

// What was accepted, and has come to nothing after all, has a queue pair that is in RTS.
void CmId::finish() {
  if (phase_ == Phase::accepted) (void)facts_.qp.modify({.state = QpState::err});
  phase_ = Phase::closed;
}

CmEvent CmId::abort_connection() {
  const std::lock_guard hold(mutex_);
  if (phase_ == Phase::accepted) (void)channel_->library().disconnect(id_);
  finish();
  CmEvent failed = event_of(CmEventType::connect_error);
  failed.error = Error{Code::no_memory, base::kOutOfMemory};
  return failed;
}

CmEvent CmId::unreachable(const ReceivedEvent& received, const std::string& what) {
  finish();
  CmEvent event = event_of(CmEventType::unreachable);
  event.error = received.status == 0 || received.status == -ETIMEDOUT
                    ? Error{Code::timed_out, what}
                    : error_of(std::abs(received.status), what);
  return event;
}

CmEvent CmId::refused(uint16_t reason, const ReceivedEvent& received) {
  finish();
  CmEvent event = event_of(CmEventType::rejected);
  event.reason = reason;
  event.error =
      Error{Code::disconnected, to_string(facts_.peer) + ": " + verbs::describe_rejection(reason)};
  event.peer.private_data = received.peer.private_data;
  return event;
}

CmEvent CmId::established(const ReceivedEvent& received) {
  phase_ = Phase::accepted;
  CmEvent event = event_of(CmEventType::established);
  event.peer = received.peer;
  return event;
}

// The peer accepted our request: moves the queue pair to RTS, then sends RTU.
std::optional<CmEvent> CmId::on_reply(const ReceivedEvent& received) {
  facts_.peer_qpn = received.qpn;
  own_parameters_.responder_resources =
      std::min(own_parameters_.responder_resources, received.peer.initiator_depth);
  own_parameters_.initiator_depth =
      std::min(own_parameters_.initiator_depth, received.peer.responder_resources);
  Result<void> moved = move_to_rts();
  if (moved && !device().attributes().only_by_cm && channel_->library().establish(id_) != 0)
    moved = error_of(errno, "the connection could not be confirmed");
  if (moved) return established(received);
  phase_ = Phase::closed;
  (void)channel_->library().reject(id_, nullptr, 0);
  CmEvent failed = event_of(CmEventType::connect_error);
  failed.error = moved.error();
  return failed;
}

// The peer is ready; or, on iWARP, it has taken our request; or it has named its queue pair.
std::optional<CmEvent> CmId::on_established(const ReceivedEvent& received) {
  if (service_ == CmService::datagrams) {
    phase_ = Phase::closed;
    facts_.peer_qpn = received.service.qpn;
    CmEvent found = event_of(CmEventType::established);
    found.peer.private_data = received.peer.private_data;
    found.service = received.service;
    return found;
  }
  if (phase_ == Phase::request_sent) return on_reply(received);
  return phase_ == Phase::accepted ? std::optional(event_of(CmEventType::established))
                                   : std::nullopt;
}

std::optional<CmEvent> CmId::on_disconnect(const ReceivedEvent& received) {
  if (phase_ == Phase::closed) return std::nullopt;
  const bool accepted = phase_ == Phase::accepted;
  if (accepted) {
    (void)facts_.qp.modify({.state = QpState::err});
    (void)channel_->library().disconnect(id_);  // answers the peer, if it was the first
  }
  phase_ = Phase::closed;
  if (received.type == RDMA_CM_EVENT_DISCONNECTED) return event_of(CmEventType::disconnected);
  CmEvent removed = event_of(accepted ? CmEventType::disconnected : CmEventType::unreachable);
  removed.error = Error{Code::io_error, "the device " + device().attributes().port +
                                            " has been removed: close all that is of it"};
  return removed;
}

std::optional<CmEvent> CmId::on_event(const ReceivedEvent& received) {
  const std::lock_guard hold(mutex_);
  switch (received.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: {
      if (const Result<void> ok = check_device(); !ok) {
        phase_ = Phase::closed;
        CmEvent event = event_of(CmEventType::unreachable);
        event.error = ok.error();
        return event;
      }
      phase_ = Phase::resolved;
      return event_of(CmEventType::address_resolved);
    }
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      phase_ = Phase::routed;
      return event_of(CmEventType::route_resolved);
    case RDMA_CM_EVENT_ADDR_ERROR:
      return unreachable(received, "no route to " + to_string(facts_.peer) +
                                       ": no host on the link has that address");
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return unreachable(received, "no route to " + to_string(facts_.peer));
    case RDMA_CM_EVENT_CONNECT_REQUEST: {
      CmEvent requested = event_of(CmEventType::connect_request);
      requested.peer = peer_parameters_;
      return requested;
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return on_reply(received);
    case RDMA_CM_EVENT_ESTABLISHED:
      return on_established(received);
    case RDMA_CM_EVENT_UNREACHABLE:
      if (service_ == CmService::datagrams && received.status > 0)
        return refused(reason_of_status(received.status), received);
      return unreachable(received, to_string(facts_.peer) + " does not answer");
    case RDMA_CM_EVENT_REJECTED:
      return refused(received.status >= 0               ? static_cast<uint16_t>(received.status)
                     : received.status == -ECONNREFUSED ? kCmNoListener
                                                        : kCmConsumer,
                     received);
    case RDMA_CM_EVENT_CONNECT_ERROR: {
      finish();
      CmEvent failed = event_of(CmEventType::connect_error);
      failed.error = error_of(std::abs(received.status), "the connection failed");
      return failed;
    }
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return on_disconnect(received);
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace weft::ibverbs
