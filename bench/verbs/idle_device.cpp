// SPDX-License-Identifier: BSD-3-Clause
// A libibverbs with one device that does nothing: posted requests complete successfully when
// polled, and no byte moves. So the time of a program on it is the cost of its own path
// (verbs_cost.cpp). Queue pairs are posted by lists and by ibv_wr_*, both into the same ring of the
// completion queue. Not thread-safe, and it does not validate arguments.
#include "bench/verbs/idle_device.hpp"

#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#undef ibv_query_port
#undef ibv_reg_mr

namespace {

constexpr uint32_t kRing = 1024;  // completions of a queue, a power of two

struct Cq {
  ibv_cq cq{};
  uint32_t head = 0, tail = 0;
  ibv_wc ring[kRing]{};

  int add(uint64_t id, ibv_wc_opcode opcode, uint32_t length, uint32_t qpn) {
    if (tail - head == kRing) return ENOMEM;
    ibv_wc& done = ring[tail++ % kRing];
    done.wr_id = id;
    done.opcode = opcode;
    done.byte_len = length;
    done.qp_num = qpn;
    return 0;
  }
};

struct Qp {
  ibv_qp_ex ex{};
  Cq *send = nullptr, *receive = nullptr;
  ibv_qp_state state = IBV_QPS_RESET;
  ibv_qp_cap cap{};
  // The batch that ibv_wr_start() began.
  uint32_t began = 0, length = 0;
  int error = 0;
};

Qp& of(ibv_qp* qp) { return *reinterpret_cast<Qp*>(qp); }
Qp& of(ibv_qp_ex* qp) { return *reinterpret_cast<Qp*>(qp); }
Cq& of(ibv_cq* cq) { return *reinterpret_cast<Cq*>(cq); }

Posted* posted = nullptr;

constexpr ibv_wc_opcode kCompleted[] = {
    IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,      IBV_WC_SEND,    IBV_WC_RDMA_READ,
    IBV_WC_COMP_SWAP,  IBV_WC_FETCH_ADD,  IBV_WC_LOCAL_INV, IBV_WC_BIND_MW, IBV_WC_SEND};

uint32_t sum(const ibv_sge* entries, int count) {
  uint32_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += entries[i].length;
  return bytes;
}

void tell(const ibv_qp& qp, const ibv_send_wr& w) {
  Posted t{.id = w.wr_id, .opcode = w.opcode, .flags = w.send_flags};
  const bool atomic =
      w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (qp.qp_type == IBV_QPT_UD) {
    t.has_handle = w.wr.ud.ah != nullptr;
    t.qpn = w.wr.ud.remote_qpn;
    t.qkey = w.wr.ud.remote_qkey;
  } else if (atomic) {
    t.remote = w.wr.atomic.remote_addr;
    t.rkey = w.wr.atomic.rkey;
    t.compare_add = w.wr.atomic.compare_add;
    if (w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) t.swap = w.wr.atomic.swap;
  } else if (w.opcode != IBV_WR_SEND && w.opcode != IBV_WR_SEND_WITH_IMM &&
             w.opcode != IBV_WR_SEND_WITH_INV && w.opcode != IBV_WR_LOCAL_INV) {
    t.remote = w.wr.rdma.remote_addr;
    t.rkey = w.wr.rdma.rkey;
  }
  if (w.opcode == IBV_WR_SEND_WITH_IMM || w.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
    t.immediate_or_key = w.imm_data;
  if (w.opcode == IBV_WR_SEND_WITH_INV || w.opcode == IBV_WR_LOCAL_INV)
    t.immediate_or_key = w.invalidate_rkey;
  t.entries = static_cast<uint32_t>(w.num_sge);
  t.bytes = sum(w.sg_list, w.num_sge);
  t.by_list = true;
  t.is_inline = (w.send_flags & IBV_SEND_INLINE) != 0;
  *posted = t;
}

int post_send(ibv_qp* raw, ibv_send_wr* work, ibv_send_wr** bad) {
  Qp& qp = of(raw);
  for (; work != nullptr; work = work->next) {
    const int error = qp.send->add(work->wr_id, kCompleted[work->opcode],
                                   sum(work->sg_list, work->num_sge), raw->qp_num);
    if (posted != nullptr) tell(*raw, *work);
    if (error == 0) continue;
    *bad = work;
    return error;
  }
  return 0;
}

int post_recv(ibv_qp* raw, ibv_recv_wr* work, ibv_recv_wr** bad) {
  Qp& qp = of(raw);
  for (; work != nullptr; work = work->next) {
    const int error =
        qp.receive->add(work->wr_id, IBV_WC_RECV, sum(work->sg_list, work->num_sge), raw->qp_num);
    if (error == 0) continue;
    *bad = work;
    return error;
  }
  return 0;
}

int poll_cq(ibv_cq* raw, int most, ibv_wc* out) {
  Cq& cq = of(raw);
  int n = 0;
  for (; n < most && cq.head != cq.tail; ++n) out[n] = cq.ring[cq.head++ % kRing];
  return n;
}

int arm(ibv_cq*, int) { return 0; }

// The calls behind ibv_wr_*.
void issue(ibv_qp_ex* ex, ibv_wr_opcode opcode, const Posted& rest = {}) {
  Qp& qp = of(ex);
  if (qp.error == 0) qp.error = qp.send->add(ex->wr_id, kCompleted[opcode], 0, ex->qp_base.qp_num);
  if (posted == nullptr) return;
  *posted = rest;
  posted->id = ex->wr_id;
  posted->opcode = opcode;
  posted->flags = ex->wr_flags;
}
void set_bytes(ibv_qp_ex* ex, size_t bytes, bool is_inline) {
  Cq& cq = *of(ex).send;
  cq.ring[(cq.tail - 1) % kRing].byte_len = static_cast<uint32_t>(bytes);
  if (posted == nullptr) return;
  posted->entries = 1;
  posted->bytes = static_cast<uint32_t>(bytes);
  posted->is_inline = is_inline;
}
void wr_start(ibv_qp_ex* ex) {
  of(ex).began = of(ex).send->tail;
  of(ex).error = 0;
}
int wr_complete(ibv_qp_ex* ex) {
  Qp& qp = of(ex);
  if (qp.error != 0) qp.send->tail = qp.began;
  return qp.error;
}
void wr_abort(ibv_qp_ex* ex) { of(ex).send->tail = of(ex).began; }

void fill_extended(ibv_qp_ex& ex) {
  ex.wr_start = wr_start;
  ex.wr_complete = wr_complete;
  ex.wr_abort = wr_abort;
  ex.wr_send = [](ibv_qp_ex* q) { issue(q, IBV_WR_SEND); };
  ex.wr_send_imm = [](ibv_qp_ex* q, __be32 immediate) {
    issue(q, IBV_WR_SEND_WITH_IMM, {.immediate_or_key = immediate});
  };
  ex.wr_send_inv = [](ibv_qp_ex* q, uint32_t key) {
    issue(q, IBV_WR_SEND_WITH_INV, {.immediate_or_key = key});
  };
  ex.wr_rdma_write = [](ibv_qp_ex* q, uint32_t rkey, uint64_t remote) {
    issue(q, IBV_WR_RDMA_WRITE, {.remote = remote, .rkey = rkey});
  };
  ex.wr_rdma_write_imm = [](ibv_qp_ex* q, uint32_t rkey, uint64_t remote, __be32 immediate) {
    issue(q, IBV_WR_RDMA_WRITE_WITH_IMM,
          {.remote = remote, .rkey = rkey, .immediate_or_key = immediate});
  };
  ex.wr_rdma_read = [](ibv_qp_ex* q, uint32_t rkey, uint64_t remote) {
    issue(q, IBV_WR_RDMA_READ, {.remote = remote, .rkey = rkey});
  };
  ex.wr_atomic_cmp_swp = [](ibv_qp_ex* q, uint32_t rkey, uint64_t remote, uint64_t compare,
                            uint64_t swap) {
    issue(q, IBV_WR_ATOMIC_CMP_AND_SWP,
          {.remote = remote, .compare_add = compare, .swap = swap, .rkey = rkey});
  };
  ex.wr_atomic_fetch_add = [](ibv_qp_ex* q, uint32_t rkey, uint64_t remote, uint64_t add) {
    issue(q, IBV_WR_ATOMIC_FETCH_AND_ADD, {.remote = remote, .compare_add = add, .rkey = rkey});
  };
  ex.wr_set_ud_addr = [](ibv_qp_ex*, ibv_ah* handle, uint32_t qpn, uint32_t qkey) {
    if (posted == nullptr) return;
    posted->has_handle = handle != nullptr;
    posted->qpn = qpn;
    posted->qkey = qkey;
  };
  ex.wr_set_sge = [](ibv_qp_ex* q, uint32_t, uint64_t, uint32_t length) {
    set_bytes(q, length, false);
  };
  ex.wr_set_inline_data = [](ibv_qp_ex* q, void*, size_t length) { set_bytes(q, length, true); };
}

ibv_device the_device = [] {
  ibv_device device{};
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::strcpy(device.name, "idle0");
  std::strcpy(device.dev_name, "uverbs_idle");
  std::strcpy(device.ibdev_path, "/nowhere/idle0");
  return device;
}();
uint32_t next_number = 17;
bool has_extended = true;

template <class T>
T* refuse() {
  errno = EOPNOTSUPP;
  return nullptr;
}

Qp* make_qp(ibv_context* context, ibv_cq* send, ibv_cq* receive, ibv_qp_type type,
            const ibv_qp_cap& cap) {
  Qp* const qp = new Qp;
  qp->cap = cap;
  qp->ex.qp_base.qp_type = type;
  qp->ex.qp_base.context = context;
  qp->ex.qp_base.qp_num = next_number++;
  qp->send = reinterpret_cast<Cq*>(send);
  qp->receive = reinterpret_cast<Cq*>(receive);
  return qp;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted) {
  if (!has_extended) return refuse<ibv_qp>();
  Qp* const qp = make_qp(context, wanted->send_cq, wanted->recv_cq, wanted->qp_type, wanted->cap);
  if ((wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) fill_extended(qp->ex);
  return &qp->ex.qp_base;
}

}  // namespace

extern "C" {

void idle_have_extended(bool have) { has_extended = have; }
void idle_record(Posted* where) { posted = where; }

ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &the_device, nullptr };
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
ibv_context* ibv_open_device(ibv_device* device) {
  auto* const all = new verbs_context{};
  all->sz = sizeof *all;
  all->create_qp_ex = create_qp_ex;
  all->context.device = device;
  all->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  all->context.async_fd = eventfd(0, EFD_CLOEXEC);  // never readable: there are no events
  all->context.ops.post_send = post_send;
  all->context.ops.post_recv = post_recv;
  all->context.ops.poll_cq = poll_cq;
  all->context.ops.req_notify_cq = arm;
  return &all->context;
}
int ibv_close_device(ibv_context* context) {
  close(context->async_fd);
  delete reinterpret_cast<verbs_context*>(reinterpret_cast<char*>(context) -
                                          offsetof(verbs_context, context));
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* a) {
  *a = {};
  a->phys_port_cnt = 1;
  a->max_qp = 256;
  a->max_qp_wr = kRing;
  a->max_sge = 16;
  a->max_cqe = kRing;
  a->max_qp_rd_atom = a->max_qp_init_rd_atom = 16;
  a->atomic_cap = IBV_ATOMIC_HCA;
  return 0;
}
int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* compat) {
  auto* const port = reinterpret_cast<ibv_port_attr*>(compat);
  port->state = IBV_PORT_ACTIVE;
  port->max_mtu = port->active_mtu = IBV_MTU_4096;
  port->gid_tbl_len = 1;
  port->max_msg_sz = 1u << 31;
  port->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t, int, ibv_gid* gid) {
  *gid = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1}};
  return 0;
}
int ibv_get_async_event(ibv_context*, ibv_async_event*) { return -1; }
void ibv_ack_async_event(ibv_async_event*) {}
ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }
int ibv_dealloc_pd(ibv_pd* pd) { return delete pd, 0; }
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int) {
  const uint32_t key = next_number++;
  return new ibv_mr{pd->context, pd, address, length, 0, key, key};
}
int ibv_dereg_mr(ibv_mr* mr) { return delete mr, 0; }
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return new ibv_comp_channel{context, -1, 0};
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) { return delete channel, 0; }
ibv_cq* ibv_create_cq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
  Cq* const cq = new Cq;
  cq->cq.context = context;
  cq->cq.cqe = entries;
  return &cq->cq;
}
int ibv_destroy_cq(ibv_cq* cq) { return delete &of(cq), 0; }
int ibv_resize_cq(ibv_cq*, int) { return EOPNOTSUPP; }
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq**, void**) { return -1; }
void ibv_ack_cq_events(ibv_cq*, unsigned) {}
ibv_srq* ibv_create_srq(ibv_pd*, ibv_srq_init_attr*) { return refuse<ibv_srq>(); }
int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; }
int ibv_destroy_srq(ibv_srq*) { return EOPNOTSUPP; }
ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  return &make_qp(pd->context, wanted->send_cq, wanted->recv_cq, wanted->qp_type, wanted->cap)
              ->ex.qp_base;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* a, int mask) {
  if ((mask & IBV_QP_STATE) != 0) of(qp).state = a->qp_state;
  return 0;
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* a, int, ibv_qp_init_attr* init) {
  a->qp_state = of(qp).state;
  a->cap = init->cap = of(qp).cap;
  return 0;
}
int ibv_destroy_qp(ibv_qp* qp) { return delete &of(qp), 0; }
ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr*) { return new ibv_ah{pd->context, pd, 0}; }
int ibv_destroy_ah(ibv_ah* ah) { return delete ah, 0; }
int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
int ibv_fork_init() { return 0; }
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return of(qp).ex.wr_start != nullptr ? &of(qp).ex : nullptr;
}
}
