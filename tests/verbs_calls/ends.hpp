// SPDX-License-Identifier: BSD-3-Clause
// Two queue pairs of one device that are connected to each other, with memory and queues.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstring>
#include <ctime>
#include <vector>

#include "tests/verbs_calls/check.hpp"

inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND;
inline constexpr uint32_t kQkey = 0x1234;
inline constexpr uint32_t kPsn = 7;

// Of the list: 0, or what WEFT_TEST_DEVICE_INDEX says.
inline int device_index = [] {
  const char* index = std::getenv("WEFT_TEST_DEVICE_INDEX");
  return index == nullptr ? 0 : std::atoi(index);
}();

// The device of the program, open.
inline ibv_context* open_device() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  REQUIRE(list != nullptr && count > device_index);
  ibv_context* context = ibv_open_device(list[device_index]);
  REQUIRE(context != nullptr);
  ibv_free_device_list(list);
  return context;
}

inline ibv_ah_attr own_address(ibv_context* context) {
  ibv_ah_attr attr{};
  REQUIRE(ibv_query_gid(context, 1, 0, &attr.grh.dgid) == 0);
  attr.grh.hop_limit = 64;
  attr.is_global = 1;
  attr.port_num = 1;
  return attr;
}

inline void to_init(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kAllAccess & ~IBV_ACCESS_MW_BIND;
  attr.qkey = kQkey;
  const int last = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last) == 0);
}

inline void to_rts(ibv_qp* qp, uint32_t peer) {
  const bool is_reliable = qp->qp_type == IBV_QPT_RC || qp->qp_type >= IBV_QPT_XRC_SEND;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.rq_psn = attr.sq_psn = kPsn;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.ah_attr = own_address(qp->context);
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD)
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (is_reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
  attr.qp_state = IBV_QPS_RTS;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (is_reliable)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
}

inline ibv_wc wait_for(ibv_cq* cq) {
  ibv_wc wc{};
  const std::time_t until = std::time(nullptr) + 20;
  int count = 0;
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0 && std::time(nullptr) < until) {
  }
  REQUIRE(count == 1);
  return wc;
}

// One end. `ex` is null unless all operations of ibv_wr_* were asked for.
struct End {
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_qp_ex* ex = nullptr;
};

struct Ends {
  ibv_context* context = open_device();
  ibv_pd* pd = ibv_alloc_pd(context);
  std::vector<char> memory = std::vector<char>(16384);
  ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(), kAllAccess);
  End a, b;

  explicit Ends(ibv_qp_type type, uint64_t send_ops = 0) {
    REQUIRE(pd != nullptr && mr != nullptr);
    for (End* end : {&a, &b}) {
      end->cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
      REQUIRE(end->cq != nullptr);
      ibv_qp_init_attr_ex attr{};
      attr.send_cq = attr.recv_cq = end->cq;
      attr.cap = {.max_send_wr = 32,
                  .max_recv_wr = 32,
                  .max_send_sge = 3,
                  .max_recv_sge = 3,
                  .max_inline_data = 64};
      attr.qp_type = type;
      attr.pd = pd;
      attr.comp_mask = IBV_QP_INIT_ATTR_PD;
      attr.send_ops_flags = send_ops;
      if (send_ops != 0) attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      end->qp = ibv_create_qp_ex(context, &attr);
      REQUIRE(end->qp != nullptr);
      CHECK(attr.cap.max_send_wr >= 32 && attr.cap.max_inline_data >= 64);
      end->ex = ibv_qp_to_qp_ex(end->qp);
      CHECK((end->ex != nullptr) == (send_ops != 0));
      to_init(end->qp);
    }
    to_rts(a.qp, b.qp->qp_num);
    to_rts(b.qp, a.qp->qp_num);
  }
  ~Ends() {
    for (End* end : {&a, &b}) {
      CHECK(ibv_destroy_qp(end->qp) == 0);
      CHECK(ibv_destroy_cq(end->cq) == 0);
    }
    CHECK(ibv_dereg_mr(mr) == 0);
    CHECK(ibv_dealloc_pd(pd) == 0);
    CHECK(ibv_close_device(context) == 0);
  }

  // The memory at `offset`, in its first half for requests and its second half for the peer.
  char* at(size_t offset) { return memory.data() + offset; }
  uint64_t address(size_t offset) { return reinterpret_cast<uintptr_t>(at(offset)); }
  ibv_sge sge(size_t offset, uint32_t length) {
    return {.addr = address(offset), .length = length, .lkey = mr->lkey};
  }
  void receive(size_t offset, uint32_t length) {
    ibv_sge entry = sge(offset, length);
    ibv_recv_wr wr{.wr_id = 99, .next = nullptr, .sg_list = &entry, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_recv(b.qp, &wr, &bad) == 0);
  }
};
