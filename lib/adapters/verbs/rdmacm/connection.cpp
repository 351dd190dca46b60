// SPDX-License-Identifier: BSD-3-Clause
// Connecting, accepting, rejecting and disconnecting.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/queue/qp_type.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/channel.hpp"
#include "lib/adapters/verbs/rdmacm/id.hpp"
#include "lib/adapters/verbs/rdmacm/queue_pair.hpp"

namespace weft::rdmacm {

namespace {

std::vector<std::byte> bytes_of(const void* data, size_t length) {
  const auto* const first = static_cast<const std::byte*>(data);
  return data != nullptr ? std::vector<std::byte>(first, first + length) : std::vector<std::byte>();
}

// The queue pair of the id, or, if it has none, the one that the program names.
CmQueuePair queue_pair_of(const Id& id, const rdma_conn_param* param) {
  CmQueuePair own{.type = drop_in::type_of(id.id.qp_type).value_or(QpType::rc)};
  if (id.id.qp != nullptr) {
    own.number.value = id.id.qp->qp_num;
    own.shared_receives = id.id.qp->srq != nullptr;
  } else if (param != nullptr) {
    own.number.value = param->qp_num;
    own.shared_receives = param->srq != 0;
  }
  return own;
}

CmParameters parameters_of(Id& id, const rdma_conn_param* param) {
  CmParameters p;
  p.responder_resources = id.responder_resources;
  p.initiator_depth = id.initiator_depth;
  p.traffic_class = id.tos;
  if (id.ack_timeout) p.timeout = *id.ack_timeout;
  p.private_data = id.connect_data;
  if (param == nullptr) return p;
  p.retry_count = std::min(param->retry_count, kMostRetries);
  p.rnr_retry = std::min(param->rnr_retry_count, kMostRetries);
  const std::vector<std::byte> own = bytes_of(param->private_data, param->private_data_len);
  p.private_data.insert(p.private_data.end(), own.begin(), own.end());
  return p;
}

// RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH: as much as both sides have.
void set_own(Id& id, const rdma_conn_param* param) {
  id.rnr_retries =
      std::min(param != nullptr ? param->rnr_retry_count : CmParameters().rnr_retry, kMostRetries);
  if (param == nullptr) return;
  id.responder_resources = param->responder_resources;
  id.initiator_depth = param->initiator_depth;
}

// The manual: as many READs and atomics as the device can have, RDMA_MAX_RESP_RES and
// RDMA_MAX_INIT_DEPTH being all; without a queue pair of the id, its number is in the parameters.
int check(const char* call, const Id& id, const rdma_conn_param* param) {
  if (is_of_datagrams(id)) return 0;
  if (param == nullptr)
    return id.id.qp != nullptr
               ? 0
               : refuse(EINVAL, call, "the id has no queue pair, and conn_param is null");
  const uint32_t most = id.context->device.attributes().max_rd_atomic;
  const auto fits = [&](uint8_t depth) { return depth == RDMA_MAX_RESP_RES || depth <= most; };
  static_assert(RDMA_MAX_RESP_RES == RDMA_MAX_INIT_DEPTH);
  if (fits(param->responder_resources) && fits(param->initiator_depth)) return 0;
  return refuse(EINVAL, call,
                ("responder_resources " + std::to_string(param->responder_resources) +
                 ", initiator_depth " + std::to_string(param->initiator_depth) +
                 ": the device has at most " + std::to_string(most) + " (max_qp_rd_atom)")
                    .c_str());
}

int accept_connection(Id& id, const rdma_conn_param* param) {
  constexpr const char* kCall = "rdma_accept";
  set_own(id, param);
  if (id.id.qp != nullptr)
    if (const int error = move_to_rts(id); error != 0) {
      move_to_err(id);
      return refuse(error, kCall, "the queue pair cannot be moved to RTS");
    }
  const Result<void> accepted =
      cm_of(id).accept(queue_pair_of(id, param), parameters_of(id, param));
  if (accepted) return complete(id);
  move_to_err(id);
  return refuse(kCall, accepted.error());
}

}  // namespace

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

int rdma_connect(rdma_cm_id* id, rdma_conn_param* conn_param) {
  return guarded("rdma_connect", [&] {
    Id& self = of(id);
    if (self.devices.empty() || self.context == nullptr)
      return refuse(EINVAL, "rdma_connect", "the id has no route: rdma_resolve_route comes before");
    if (check("rdma_connect", self, conn_param) != 0) return -1;
    set_own(self, conn_param);
    const weft::CmParameters p = parameters_of(self, conn_param);
    const weft::Result<void> begun = is_of_datagrams(self)
                                         ? cm_of(self).find_service(p.private_data)
                                         : cm_of(self).connect(queue_pair_of(self, conn_param), p);
    return begun ? complete(self) : refuse("rdma_connect", begun.error());
  });
}

int rdma_establish(rdma_cm_id* id) {
  return guarded("rdma_establish", [&] {
    if (id->qp != nullptr || of(id).devices.empty())
      return refuse(EINVAL, "rdma_establish", "the id has a queue pair, or no connection");
    return outcome("rdma_establish", cm_of(of(id)).establish());
  });
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* conn_param) {
  return guarded("rdma_accept", [&] {
    Id& self = of(id);
    if (self.devices.empty() || self.context == nullptr)
      return refuse(EINVAL, "rdma_accept", "the id is of no connection request");
    if (check("rdma_accept", self, conn_param) != 0) return -1;
    if (!is_of_datagrams(self)) return accept_connection(self, conn_param);
    return outcome("rdma_accept", cm_of(self).accept(queue_pair_of(self, conn_param),
                                                     parameters_of(self, conn_param)));
  });
}

int rdma_reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return guarded("rdma_reject", [&] {
    if (of(id).devices.empty() || of(id).context == nullptr)
      return refuse(EINVAL, "rdma_reject", "the id is of no connection request");
    return outcome("rdma_reject", cm_of(of(id)).reject(bytes_of(private_data, private_data_len)));
  });
}

int rdma_disconnect(rdma_cm_id* id) {
  return guarded("rdma_disconnect", [&] {
    Id& self = of(id);
    if (self.devices.empty() || self.context == nullptr)
      return refuse(EINVAL, "rdma_disconnect", "the id has no connection");
    move_to_err(self);
    const bool ended = self.ended && !has_queued_event(self);
    const weft::Result<void> begun = cm_of(self).disconnect();
    if (!begun) return refuse("rdma_disconnect", begun.error());
    return ended ? 0 : complete(self);
  });
}

// weft's device sees the first request of the peer by itself.
int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  if (event == IBV_EVENT_COMM_EST && !of(id).devices.empty()) return 0;
  return refuse(EINVAL, "rdma_notify",
                "the event is not IBV_EVENT_COMM_EST, or there is no connection");
}
