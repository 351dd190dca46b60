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
  if (status == 1) return kCmNobodyListens;
  return status == 2 ? kCmConsumer : 0;
}

}  // namespace

void CmId::learn() {
  const CmLibrary& library = channel_->library();
  facts_.port = ntohs(library.get_src_port(id_));
  facts_.peer = base::gid_of(id_->route.addr.dst_storage);
  facts_.peer_port = ntohs(library.get_dst_port(id_));
}

void CmId::asked_by(const Heard& request) {
  const std::lock_guard hold(mutex_);
  phase_ = Phase::asked;
  learn();
  asked_ = request.peer;
  facts_.peer_qpn = request.qpn;
  if (service_ == CmService::datagrams) return;
  ibv_qp_attr said{};
  said.qp_state = IBV_QPS_RTR;
  int mask = 0;
  facts_.path_mtu = device().attributes().active_mtu;
  if (channel_->library().init_qp_attr(id_, &said, &mask) == 0 && (mask & IBV_QP_PATH_MTU))
    facts_.path_mtu = mtu_from_verbs(said.path_mtu);
  asked_.path_mtu = facts_.path_mtu;
  if (mask & IBV_QP_AV) asked_.traffic_class = said.ah_attr.grh.traffic_class;
  said.qp_state = IBV_QPS_RTS;
  if (channel_->library().init_qp_attr(id_, &said, &mask) == 0 && (mask & IBV_QP_TIMEOUT))
    asked_.timeout = said.timeout;
}

CmEvent CmId::event_of(CmEventType type) {
  CmEvent event;
  event.type = type;
  event.id = weft::CmId(shared_from_this());
  return event;
}

// What was accepted, and has come to nothing after all, has a queue pair that is in RTS.
void CmId::finish() {
  if (phase_ == Phase::decided) (void)facts_.qp.modify({.state = QpState::err});
  phase_ = Phase::over;
}

CmEvent CmId::abort_connection() {
  const std::lock_guard hold(mutex_);
  if (phase_ == Phase::decided) (void)channel_->library().disconnect(id_);
  finish();
  CmEvent failed = event_of(CmEventType::connect_error);
  failed.error = Error{Code::no_memory, base::kOutOfMemory};
  return failed;
}

CmEvent CmId::lost(const Heard& heard, const std::string& what) {
  finish();
  CmEvent event = event_of(CmEventType::unreachable);
  event.error = heard.status == 0 || heard.status == -ETIMEDOUT
                    ? Error{Code::timed_out, what}
                    : error_of(std::abs(heard.status), what);
  return event;
}

CmEvent CmId::refused(uint16_t reason, const Heard& heard) {
  finish();
  CmEvent event = event_of(CmEventType::rejected);
  event.reason = reason;
  event.error =
      Error{Code::disconnected, to_string(facts_.peer) + ": " + verbs::why_refused(reason)};
  event.peer.private_data = heard.peer.private_data;
  return event;
}

CmEvent CmId::established(const Heard& heard) {
  phase_ = Phase::decided;
  CmEvent event = event_of(CmEventType::established);
  event.peer = heard.peer;
  return event;
}

// Our request was taken: the queue pair follows, then the peer hears that it may begin.
std::optional<CmEvent> CmId::on_reply(const Heard& heard) {
  facts_.peer_qpn = heard.qpn;
  ours_.responder_resources = std::min(ours_.responder_resources, heard.peer.initiator_depth);
  ours_.initiator_depth = std::min(ours_.initiator_depth, heard.peer.responder_resources);
  Result<void> walked = walk();
  if (walked && !device().attributes().only_by_cm && channel_->library().establish(id_) != 0)
    walked = error_of(errno, "the connection could not be confirmed");
  if (walked) return established(heard);
  phase_ = Phase::over;
  (void)channel_->library().reject(id_, nullptr, 0);
  CmEvent failed = event_of(CmEventType::connect_error);
  failed.error = walked.error();
  return failed;
}

// The peer is ready; or, on iWARP, it has taken our request; or it has named its queue pair.
std::optional<CmEvent> CmId::on_established(const Heard& heard) {
  if (service_ == CmService::datagrams) {
    phase_ = Phase::over;
    facts_.peer_qpn = heard.service.qpn;
    CmEvent found = event_of(CmEventType::established);
    found.peer.private_data = heard.peer.private_data;
    found.service = heard.service;
    return found;
  }
  if (phase_ == Phase::asking) return on_reply(heard);
  return phase_ == Phase::decided ? std::optional(event_of(CmEventType::established))
                                  : std::nullopt;
}

std::optional<CmEvent> CmId::on_disconnect(const Heard& heard) {
  if (phase_ == Phase::over) return std::nullopt;
  const bool walked = phase_ == Phase::decided;
  if (walked) {
    (void)facts_.qp.modify({.state = QpState::err});
    (void)channel_->library().disconnect(id_);  // answers the peer, if it was the first
  }
  phase_ = Phase::over;
  if (heard.type == RDMA_CM_EVENT_DISCONNECTED) return event_of(CmEventType::disconnected);
  CmEvent gone = event_of(walked ? CmEventType::disconnected : CmEventType::unreachable);
  gone.error = Error{Code::io_error, "the device " + device().attributes().port +
                                         " has been removed: close all that is of it"};
  return gone;
}

std::optional<CmEvent> CmId::hear(const Heard& heard) {
  const std::lock_guard hold(mutex_);
  switch (heard.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: {
      if (const Result<void> ok = check_device(); !ok) {
        phase_ = Phase::over;
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
      return lost(heard, "no way to " + to_string(facts_.peer) + ": nobody there has that address");
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return lost(heard, "no route to " + to_string(facts_.peer));
    case RDMA_CM_EVENT_CONNECT_REQUEST: {
      CmEvent asked = event_of(CmEventType::connect_request);
      asked.peer = asked_;
      return asked;
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return on_reply(heard);
    case RDMA_CM_EVENT_ESTABLISHED:
      return on_established(heard);
    case RDMA_CM_EVENT_UNREACHABLE:
      if (service_ == CmService::datagrams && heard.status > 0)
        return refused(reason_of_status(heard.status), heard);
      return lost(heard, to_string(facts_.peer) + " does not answer");
    case RDMA_CM_EVENT_REJECTED:
      return refused(heard.status >= 0               ? static_cast<uint16_t>(heard.status)
                     : heard.status == -ECONNREFUSED ? kCmNobodyListens
                                                     : kCmConsumer,
                     heard);
    case RDMA_CM_EVENT_CONNECT_ERROR: {
      finish();
      CmEvent failed = event_of(CmEventType::connect_error);
      failed.error = error_of(std::abs(heard.status), "the connection failed");
      return failed;
    }
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return on_disconnect(heard);
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace weft::ibverbs
