// SPDX-License-Identifier: BSD-3-Clause
// The exports of the stand-in: objects, and what a test asks for. See fake_state.hpp.
#include "tests/fake_efa/fake_efa.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/fake_efa/fake_state.hpp"

#undef ibv_query_port
#undef ibv_reg_mr

using namespace fake_efa;

namespace {

ibv_device the_device = [] {
  ibv_device d{};
  d.transport_type = IBV_TRANSPORT_UNKNOWN;
  std::strcpy(d.name, "efa_fake");
  std::strcpy(d.dev_name, "uverbs_fake");
  std::strcpy(d.ibdev_path, "/nowhere/efa_fake");
  return d;
}();
uint32_t next_number = 17;
uint16_t next_handle = 1;

bool refuse(int error) {
  errno = error;
  return false;
}

}  // namespace

extern "C" {

void fake_efa_begin(uint32_t device_caps, uint32_t max_rdma_size) {
  const std::lock_guard lock(mutex);
  caps = device_caps;
  max_rdma = max_rdma_size;
  calls.clear();
  is_forced = false;
  refused_immediate = 0;
  has_events = unknown_peers = false;
}
const char* fake_efa_calls() { return calls.c_str(); }
void fake_efa_fail_next(ibv_wc_status status, uint32_t vendor_error) {
  is_forced = true;
  forced.status = status;
  forced.vendor = vendor_error;
}
void fake_efa_refuse_immediate(uint32_t immediate) { refused_immediate = immediate; }
void fake_efa_have_events() { has_events = true; }
void fake_efa_hide_peers() { unknown_peers = true; }

ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &the_device, nullptr };
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = new ibv_context{};
  context->device = device;
  context->async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  context->ops.post_recv = post_recv;
  context->ops.req_notify_cq = arm;
  return context;
}
int ibv_close_device(ibv_context* context) {
  close(context->async_fd);
  delete context;
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* a) {
  *a = {};
  a->vendor_id = 0x1D0F;
  a->phys_port_cnt = 1;
  a->max_qp = 256;
  a->max_qp_wr = 4096;
  a->max_sge = 2;
  a->max_sge_rd = 1;
  a->max_cqe = 65536;
  return 0;
}
int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* compat) {
  auto* const port = reinterpret_cast<ibv_port_attr*>(compat);
  port->state = IBV_PORT_ACTIVE;
  port->max_mtu = port->active_mtu = IBV_MTU_4096;
  port->gid_tbl_len = 1;
  port->max_msg_sz = kMostSend;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t, int index, ibv_gid* gid) {
  if (index != 0) return -1;
  *gid = kGid;
  return 0;
}
int ibv_get_async_event(ibv_context*, ibv_async_event*) { return -1; }
void ibv_ack_async_event(ibv_async_event*) {}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
  Pd* const pd = new Pd;
  pd->pd.context = context;
  return &pd->pd;
}
int ibv_dealloc_pd(ibv_pd* pd) { return delete reinterpret_cast<Pd*>(pd), 0; }
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  const std::lock_guard lock(mutex);
  call("reg_mr:" + text(static_cast<uint64_t>(access)));
  const int known = IBV_ACCESS_LOCAL_WRITE | ((caps & 1) != 0 ? IBV_ACCESS_REMOTE_READ : 0) |
                    ((caps & 8) != 0 ? IBV_ACCESS_REMOTE_WRITE : 0);
  if ((access & ~known) != 0) return refuse(EOPNOTSUPP), nullptr;
  Mr* const mr = new Mr;
  mr->mr.context = pd->context;
  mr->mr.addr = address;
  mr->mr.length = length;
  mr->mr.lkey = mr->mr.rkey = next_number++;
  mr->access = access;
  regions[mr->mr.rkey] = mr;
  return &mr->mr;
}
int ibv_dereg_mr(ibv_mr* mr) {
  const std::lock_guard lock(mutex);
  regions.erase(mr->rkey);
  delete reinterpret_cast<Mr*>(mr);
  return 0;
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* const channel = new Channel;
  channel->channel.context = context;
  channel->channel.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return &channel->channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  return delete reinterpret_cast<Channel*>(channel), 0;
}
ibv_cq* ibv_create_cq(ibv_context*, int, void*, ibv_comp_channel*, int) {
  return refuse(EOPNOTSUPP), nullptr;
}
int ibv_destroy_cq(ibv_cq* cq) { return delete reinterpret_cast<Cq*>(cq), 0; }
int ibv_resize_cq(ibv_cq*, int) { return EOPNOTSUPP; }
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** own) {
  uint64_t events = 0;
  if (read(channel->fd, &events, sizeof events) < 0) return -1;
  *cq = reinterpret_cast<Channel*>(channel)->cq;
  *own = nullptr;
  return 0;
}
void ibv_ack_cq_events(ibv_cq*, unsigned) {}
ibv_srq* ibv_create_srq(ibv_pd*, ibv_srq_init_attr*) { return refuse(EOPNOTSUPP), nullptr; }
int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; }
int ibv_destroy_srq(ibv_srq*) { return EOPNOTSUPP; }
ibv_qp* ibv_create_qp(ibv_pd*, ibv_qp_init_attr*) { return refuse(EOPNOTSUPP), nullptr; }
int ibv_modify_qp(ibv_qp* raw, ibv_qp_attr* a, int mask) {
  const std::lock_guard lock(mutex);
  Qp& qp = of(reinterpret_cast<ibv_qp_ex*>(raw));
  call("modify:" + text(static_cast<uint64_t>(mask)));
  if ((mask & IBV_QP_QKEY) != 0) qp.qkey = a->qkey;
  if ((mask & IBV_QP_STATE) != 0) qp.state = a->qp_state;
  if (qp.state != IBV_QPS_ERR && qp.state != IBV_QPS_RESET) return 0;
  if (qp.state == IBV_QPS_ERR)
    for (const Receive& r : qp.receives)
      qp.receive->add(
          {r.id, IBV_WC_WR_FLUSH_ERR, 1, raw->qp_num, 0, 0, 0, false, IBV_WC_RECV, kNoHandle});
  qp.receives.clear();
  return 0;
}
int ibv_query_qp(ibv_qp* raw, ibv_qp_attr* a, int, ibv_qp_init_attr*) {
  a->qp_state = of(reinterpret_cast<ibv_qp_ex*>(raw)).state;
  return 0;
}
int ibv_destroy_qp(ibv_qp* raw) {
  const std::lock_guard lock(mutex);
  qps.erase(raw->qp_num);
  delete reinterpret_cast<Qp*>(raw);
  return 0;
}
ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  const std::lock_guard lock(mutex);
  call("create_ah");
  Ah* const ah = new Ah;
  ah->ah.context = pd->context;
  ah->ah.pd = pd;
  ah->pd = reinterpret_cast<Pd*>(pd);
  ah->gid = attributes->grh.dgid;
  ah->number = next_handle++;
  handles.push_back(ah);
  return &ah->ah;
}
int ibv_destroy_ah(ibv_ah* ah) {
  const std::lock_guard lock(mutex);
  std::erase(handles, reinterpret_cast<Ah*>(ah));
  return delete reinterpret_cast<Ah*>(ah), 0;
}
int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
int ibv_fork_init() { return 0; }
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return reinterpret_cast<ibv_qp_ex*>(qp); }

int efadv_query_device(ibv_context*, efadv_device_attr* a, uint32_t) {
  *a = {};
  a->max_sq_wr = a->max_rq_wr = 4096;
  a->max_sq_sge = kSendEntries;
  a->max_rq_sge = 3;
  a->inline_buf_size = kInline;
  a->device_caps = caps;
  a->max_rdma_size = max_rdma;
  return 0;
}
int efadv_query_ah(ibv_ah* ah, efadv_ah_attr* a, uint32_t) {
  a->ahn = reinterpret_cast<Ah*>(ah)->number;
  return 0;
}
ibv_qp* efadv_create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* a, efadv_qp_init_attr* efa,
                           uint32_t) {
  const std::lock_guard lock(mutex);
  const uint64_t possible =
      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
      ((caps & 1) != 0 ? IBV_QP_EX_WITH_RDMA_READ : 0) |
      ((caps & 8) != 0 ? IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM : 0);
  call("create_qp_ex:" + text(a->send_ops_flags));
  if (a->qp_type != IBV_QPT_DRIVER || efa->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD ||
      a->comp_mask != (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
      (a->send_ops_flags & ~possible) != 0)
    return refuse(EOPNOTSUPP), nullptr;
  if (a->srq != nullptr || a->cap.max_send_sge > kSendEntries || a->cap.max_recv_sge > 3 ||
      a->cap.max_inline_data > kInline)
    return refuse(EINVAL), nullptr;
  Qp* const qp = new Qp;
  qp->ex.qp_base.context = context;
  qp->ex.qp_base.qp_num = next_number++;
  qp->send = reinterpret_cast<Cq*>(a->send_cq);
  qp->receive = reinterpret_cast<Cq*>(a->recv_cq);
  qp->pd = reinterpret_cast<Pd*>(a->pd);
  qp->operations = a->send_ops_flags;
  qp->cap = a->cap;
  fill(*qp);
  qps[qp->ex.qp_base.qp_num] = qp;
  return &qp->ex.qp_base;
}
ibv_cq_ex* efadv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* a, efadv_cq_init_attr* efa,
                           uint32_t) {
  call("create_cq:" + text(efa->wc_flags));
  if (a->channel != nullptr && !has_events) return refuse(EOPNOTSUPP), nullptr;  // as older devices
  if (efa->wc_flags != 0 && (caps & 4) == 0) return refuse(EOPNOTSUPP), nullptr;
  Cq* const cq = new Cq;
  cq->ex.context = context;
  cq->ex.cqe = static_cast<int>(a->cqe);
  cq->channel = reinterpret_cast<Channel*>(a->channel);
  if (cq->channel != nullptr) cq->channel->cq = ibv_cq_ex_to_cq(&cq->ex);
  fill(*cq);
  return &cq->ex;
}
efadv_cq* efadv_cq_from_ibv_cq_ex(ibv_cq_ex* cq) { return &of(cq).efa; }
}
