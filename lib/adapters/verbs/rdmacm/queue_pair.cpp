// SPDX-License-Identifier: BSD-3-Clause
// See queue_pair.hpp. All transitions are ibv_modify_qp, as the program could make them itself with
// rdma_init_qp_attr.
#include "lib/adapters/verbs/rdmacm/queue_pair.hpp"

#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/id.hpp"
#include "lib/adapters/verbs/rdmacm/multicast.hpp"

namespace weft::rdmacm {

namespace {

constexpr uint32_t kLeastInline = 64;
// 655 ms: a peer that counts its retries is told to take its time, as by the kernel's manager.
constexpr uint8_t kLongestRnrTimer = 0;

struct Transition {
  ibv_qp_attr attr{};
  int mask = 0;
};

ibv_mtu mtu_of(uint32_t bytes) {
  const auto code = std::bit_width(std::clamp(bytes, 256u, 4096u)) - 8;  // 256: IBV_MTU_256 = 1
  return static_cast<ibv_mtu>(code);
}

Transition init_of(const Id& id) {
  Transition t;
  t.attr.qp_state = IBV_QPS_INIT;
  t.attr.port_num = 1;
  t.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (is_of_datagrams(id)) {
    t.attr.qkey = RDMA_UDP_QKEY;
    t.mask |= IBV_QP_QKEY;
  } else {
    t.attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    t.mask |= IBV_QP_ACCESS_FLAGS;
  }
  return t;
}

Transition datagram_transition(ibv_qp_state state) {
  Transition t;
  t.attr.qp_state = state;
  t.mask = IBV_QP_STATE | (state == IBV_QPS_RTS ? IBV_QP_SQ_PSN : 0);
  return t;
}

// The attributes of weft that are set, in the form of verbs.
Transition transition_of(const Id& id, const QueuePairAttributes& from) {
  Transition t;
  const auto set = [&](auto& field, const auto& value, int bit) {
    if (!value) return;
    field = static_cast<std::remove_reference_t<decltype(field)>>(*value);
    t.mask |= bit;
  };
  set(t.attr.qp_state, from.state, IBV_QP_STATE);
  set(t.attr.max_dest_rd_atomic, from.max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC);
  set(t.attr.max_rd_atomic, from.max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC);
  set(t.attr.min_rnr_timer, from.min_rnr_timer, IBV_QP_MIN_RNR_TIMER);
  set(t.attr.timeout, from.timeout, IBV_QP_TIMEOUT);
  set(t.attr.retry_cnt, from.retry_count, IBV_QP_RETRY_CNT);
  set(t.attr.rnr_retry, from.rnr_retry, IBV_QP_RNR_RETRY);
  if (from.rq_psn) t.attr.rq_psn = from.rq_psn->value, t.mask |= IBV_QP_RQ_PSN;
  if (from.sq_psn) t.attr.sq_psn = from.sq_psn->value, t.mask |= IBV_QP_SQ_PSN;
  if (from.dest_qpn) t.attr.dest_qp_num = from.dest_qpn->value, t.mask |= IBV_QP_DEST_QPN;
  if (from.path_mtu) t.attr.path_mtu = mtu_of(*from.path_mtu), t.mask |= IBV_QP_PATH_MTU;
  if (from.path) t.attr.ah_attr = ah_attributes(*id.context, *from.path), t.mask |= IBV_QP_AV;
  t.attr.max_dest_rd_atomic = std::min(t.attr.max_dest_rd_atomic, id.responder_resources);
  t.attr.max_rd_atomic = std::min(t.attr.max_rd_atomic, id.initiator_depth);
  if (id.ack_timeout) t.attr.timeout = *id.ack_timeout;
  if (id.rnr_retries != kMostRetries) t.attr.min_rnr_timer = kLongestRnrTimer;
  return t;
}

Result<Transition> transition_to(const Id& id, ibv_qp_state state) {
  if (state != IBV_QPS_INIT && state != IBV_QPS_RTR && state != IBV_QPS_RTS)
    return Error{Code::invalid_argument, "attributes are those of INIT, RTR or RTS"};
  if (id.context == nullptr)
    return Error{Code::invalid_argument,
                 "the id has no device yet: rdma_resolve_addr comes before"};
  if (state == IBV_QPS_INIT) return init_of(id);
  if (is_of_datagrams(id)) return datagram_transition(state);
  if (id.devices.empty()) return Error{Code::invalid_argument, "the id has no connection"};
  const Result<QueuePairAttributes> known =
      cm_of(id).attributes(state == IBV_QPS_RTR ? QpState::rtr : QpState::rts);
  if (!known) return known.error();
  return transition_of(id, *known);
}

int move_to(Id& id, ibv_qp_state state) {
  Result<Transition> t = transition_to(id, state);
  if (!t) return refuse("rdma_init_qp_attr", t.error()), errno;
  return ibv_modify_qp(id.id.qp, &t->attr, t->mask);
}

}  // namespace

ibv_ah_attr ah_attributes(const Context& context, const AddressVector& path) {
  ibv_ah_attr ah{};
  std::memcpy(ah.grh.dgid.raw, path.destination.bytes.data(), path.destination.bytes.size());
  ah.grh.sgid_index = context.gid_index;
  ah.grh.hop_limit = path.hop_limit;
  ah.grh.traffic_class = path.traffic_class;
  ah.grh.flow_label = path.flow_label;
  ah.is_global = 1;
  ah.port_num = 1;
  return ah;
}

ibv_mtu path_mtu_of(const Context& context) {
  return mtu_of(context.device.attributes().active_mtu);
}

int move_to_rts(Id& id) {
  const int error = move_to(id, IBV_QPS_RTR);
  return error != 0 ? error : move_to(id, IBV_QPS_RTS);
}

void move_to_err(Id& id) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  if (id.id.qp != nullptr) (void)ibv_modify_qp(id.id.qp, &attr, IBV_QP_STATE);
}

namespace {

void destroy_cqs(rdma_cm_id& id) {
  if (id.send_cq != nullptr && id.send_cq != id.recv_cq) (void)ibv_destroy_cq(id.send_cq);
  if (id.recv_cq != nullptr) (void)ibv_destroy_cq(id.recv_cq);
  if (id.send_cq_channel != nullptr && id.send_cq_channel != id.recv_cq_channel)
    (void)ibv_destroy_comp_channel(id.send_cq_channel);
  if (id.recv_cq_channel != nullptr) (void)ibv_destroy_comp_channel(id.recv_cq_channel);
  id.send_cq = id.recv_cq = nullptr;
  id.send_cq_channel = id.recv_cq_channel = nullptr;
}

// Makes a queue of `size` and its channel. False: errno says why.
bool create_cq(rdma_cm_id& id, uint32_t size, ibv_cq*& cq, ibv_comp_channel*& channel) {
  channel = ibv_create_comp_channel(id.verbs);
  if (channel == nullptr) return false;
  cq = ibv_create_cq(id.verbs, static_cast<int>(std::max(size, 1u)), &id, channel, 0);
  return cq != nullptr;
}

bool create_missing_cqs(rdma_cm_id& id, ibv_qp_init_attr_ex& attr) {
  if (attr.send_cq == nullptr && id.send_cq == nullptr && id.qp_type != IBV_QPT_XRC_RECV &&
      !create_cq(id, attr.cap.max_send_wr, id.send_cq, id.send_cq_channel))
    return false;
  if (attr.recv_cq == nullptr && id.recv_cq == nullptr && !is_xrc_type(id.qp_type) &&
      !create_cq(id, attr.cap.max_recv_wr, id.recv_cq, id.recv_cq_channel))
    return false;
  if (attr.send_cq == nullptr) attr.send_cq = id.send_cq;
  if (attr.recv_cq == nullptr) attr.recv_cq = id.recv_cq;
  return true;
}

int initialize(Id& id) {
  int error = move_to(id, IBV_QPS_INIT);
  if (is_of_datagrams(id) && error == 0) error = move_to_rts(id);
  return error;
}

bool is_datagram_type(ibv_qp_type type) { return type == IBV_QPT_UD; }

int create_queue_pair(Id& self, ibv_qp_init_attr_ex& attr) {
  constexpr const char* kCall = "rdma_create_qp";
  rdma_cm_id& id = self.id;
  if (self.context == nullptr || id.qp != nullptr)
    return refuse(
        EINVAL, kCall,
        id.qp != nullptr ? "the id has a queue pair already" : "the id has no device yet");
  if (is_datagram_type(attr.qp_type) != is_of_datagrams(self))
    return refuse(EINVAL, kCall, "the port space is of another type of queue pair");
  if (attr.pd == nullptr || (attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0) attr.pd = id.pd;
  attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
  if (attr.pd == nullptr) return refuse(EINVAL, kCall, "there is no protection domain");
  if (attr.pd->context->device != id.verbs->device)
    return refuse(EINVAL, kCall, "the protection domain is of another device than the id");
  // As devices do: programs such as rdma_xclient ask for none and send inline.
  const uint32_t largest_inline = self.context->device.attributes().max_inline;
  attr.cap.max_inline_data =
      std::max(attr.cap.max_inline_data, std::min(kLeastInline, largest_inline));
  id.qp_type = attr.qp_type;
  if (attr.qp_type == IBV_QPT_XRC_RECV && (attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0) {
    attr.xrcd = default_xrcd(*self.context);
    if (attr.xrcd == nullptr) return -1;
    attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  }
  if (!create_missing_cqs(id, attr)) return destroy_cqs(id), -1;
  if (id.srq != nullptr && attr.srq == nullptr) attr.srq = id.srq;
  ibv_qp* const qp = ibv_create_qp_ex(attr.pd->context, &attr);
  if (qp == nullptr) return destroy_cqs(id), -1;
  id.qp = qp;
  if (const int error = initialize(self); error != 0) {
    rdma_destroy_qp(&id);
    return refuse(error, kCall, "the queue pair cannot be moved to INIT");
  }
  id.pd = attr.pd;
  return 0;
}

}  // namespace

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* qp_init_attr) {
  return guarded("rdma_create_qp_ex", [&] { return create_queue_pair(of(id), *qp_init_attr); });
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  return guarded("rdma_create_qp", [&] {
    ibv_qp_init_attr_ex all{};
    // The extended structure begins with the members of the other.
    static_assert(offsetof(ibv_qp_init_attr_ex, comp_mask) >=
                  offsetof(ibv_qp_init_attr, sq_sig_all));
    std::memcpy(&all, qp_init_attr, offsetof(ibv_qp_init_attr_ex, comp_mask));
    all.comp_mask = IBV_QP_INIT_ATTR_PD;
    all.pd = pd != nullptr ? pd : id->pd;
    const int result = create_queue_pair(of(id), all);
    if (result == 0) qp_init_attr->cap = all.cap;
    return result;
  });
}

void rdma_destroy_qp(rdma_cm_id* id) {
  const NotCancelled whole;
  detach_groups(of(id));  // or ibv_destroy_qp fails
  if (id->qp != nullptr) (void)ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  destroy_cqs(*id);
}

int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attr) {
  return guarded("rdma_create_srq", [&] {
    if (id->verbs == nullptr || id->srq != nullptr)
      return refuse(EINVAL, "rdma_create_srq",
                    id->srq != nullptr ? "the id has a shared receive queue already"
                                       : "the id has no device yet");
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) attr->pd = id->pd;
    attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    const bool xrc =
        (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr->srq_type == IBV_SRQT_XRC;
    if (xrc && (attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0) {
      attr->xrcd = default_xrcd(*of(id).context);
      if (attr->xrcd == nullptr) return -1;
      attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
    }
    if (xrc && ((attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || attr->cq == nullptr)) {
      if (id->recv_cq == nullptr &&
          !create_cq(*id, attr->attr.max_wr, id->recv_cq, id->recv_cq_channel))
        return -1;
      attr->cq = id->recv_cq;
      attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    }
    id->srq = ibv_create_srq_ex(id->verbs, attr);
    if (id->srq == nullptr) return -1;
    id->pd = attr->pd;
    return 0;
  });
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
  ibv_srq_init_attr_ex all{};
  all.srq_context = attr->srq_context;
  all.attr = attr->attr;
  all.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  // rdma_create_ep() with an XRC type needs one of XRC, of which there is no other sign.
  all.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  all.pd = pd;
  const int result = rdma_create_srq_ex(id, &all);
  if (result == 0) attr->attr = all.attr;
  return result;
}

void rdma_destroy_srq(rdma_cm_id* id) {
  const NotCancelled whole;
  if (id->srq != nullptr) (void)ibv_destroy_srq(id->srq);
  id->srq = nullptr;
  if (id->qp == nullptr) destroy_cqs(*id);
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* qp_attr, int* qp_attr_mask) {
  return guarded("rdma_init_qp_attr", [&] {
    const weft::Result<Transition> t = transition_to(of(id), qp_attr->qp_state);
    if (!t) return refuse("rdma_init_qp_attr", t.error());
    *qp_attr = t->attr;
    *qp_attr_mask = t->mask;
    return 0;
  });
}
