// SPDX-License-Identifier: BSD-3-Clause
// Each transition of ibv_modify_qp between each two states, with the attributes that the table of
// the IBTA (11.2.5.2) and the kernel's ib_modify_qp_is_ok() require and allow: without one of the
// required ones, or with one that is neither, EINVAL and nothing is changed.
#include <optional>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/ends.hpp"

namespace {

struct Masks {
  int required = 0;
  int optional = 0;
};

constexpr int kPaths = IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE;
constexpr int kAll[] = {IBV_QP_CUR_STATE,
                        IBV_QP_EN_SQD_ASYNC_NOTIFY,
                        IBV_QP_ACCESS_FLAGS,
                        IBV_QP_PKEY_INDEX,
                        IBV_QP_PORT,
                        IBV_QP_QKEY,
                        IBV_QP_AV,
                        IBV_QP_PATH_MTU,
                        IBV_QP_TIMEOUT,
                        IBV_QP_RETRY_CNT,
                        IBV_QP_RNR_RETRY,
                        IBV_QP_RQ_PSN,
                        IBV_QP_MAX_QP_RD_ATOMIC,
                        IBV_QP_MIN_RNR_TIMER,
                        IBV_QP_SQ_PSN,
                        IBV_QP_MAX_DEST_RD_ATOMIC,
                        IBV_QP_PATH_MIG_STATE,
                        IBV_QP_DEST_QPN};

Masks to_init(ibv_qp_type type) {
  const int last = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  return {.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | last};
}

Masks init_to_rtr(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return {.optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
  Masks masks{.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
              .optional = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX};
  if (type == IBV_QPT_RC) masks.required |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return masks;
}

// To RTS from RTR, RTS, SQD or SQE.
Masks to_rts(ibv_qp_type type, ibv_qp_state from) {
  Masks masks{.optional = IBV_QP_CUR_STATE};
  if (from == IBV_QPS_RTR) {
    masks.required = IBV_QP_SQ_PSN;
    if (type == IBV_QPT_RC)
      masks.required |=
          IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  masks.optional |= type == IBV_QPT_UD ? int{IBV_QP_QKEY} : kPaths;
  if (type == IBV_QPT_RC) masks.optional |= IBV_QP_MIN_RNR_TIMER;
  return masks;
}

Masks within_sqd(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return {.optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
  Masks masks{.optional = IBV_QP_AV | IBV_QP_PKEY_INDEX | kPaths};
  if (type == IBV_QPT_RC)
    masks.optional |= IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return masks;
}

// Empty: there is no such transition.
std::optional<Masks> masks_of(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET) return Masks{};
  if (to == IBV_QPS_ERR)
    return from == IBV_QPS_RESET ? std::nullopt : std::optional<Masks>(Masks{});
  if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) return to_init(type);
  if (from == IBV_QPS_INIT && to == IBV_QPS_INIT) return Masks{.optional = to_init(type).required};
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) return init_to_rtr(type);
  const bool has_sent = from == IBV_QPS_RTS || from == IBV_QPS_SQD;
  if ((from == IBV_QPS_RTR || has_sent) && to == IBV_QPS_RTS) return to_rts(type, from);
  if (from == IBV_QPS_RTS && to == IBV_QPS_SQD)
    return Masks{.optional = IBV_QP_EN_SQD_ASYNC_NOTIFY};
  if (from == IBV_QPS_SQD && to == IBV_QPS_SQD) return within_sqd(type);
  return std::nullopt;
}

// A queue pair, and the values that all its transitions use.
struct Subject {
  ibv_qp* qp;
  ibv_qp_attr attr{};

  Subject(Ends& ends, ibv_qp_type type) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = ends.a.cq;
    init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
    init.qp_type = type;
    qp = ibv_create_qp(ends.pd, &init);
    REQUIRE(qp != nullptr);
    attr.ah_attr = own_address(ends.context);
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.port_num = 1;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.path_mig_state = IBV_MIG_MIGRATED;
  }
  ~Subject() { CHECK_ERROR(0, ibv_destroy_qp(qp)); }

  int modify(ibv_qp_state from, ibv_qp_state to, int mask) {
    attr.qp_state = to;
    attr.cur_qp_state = from;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
  }
  ibv_qp_state state() {
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    CHECK_ERROR(0, ibv_query_qp(qp, &now, IBV_QP_STATE, &init));
    return now.qp_state;
  }
  void go(ibv_qp_state wanted) {
    REQUIRE(modify(IBV_QPS_RESET, IBV_QPS_RESET, 0) == 0);
    ibv_qp_state at = IBV_QPS_RESET;
    const auto step = [&](ibv_qp_state next) {
      REQUIRE(modify(at, next, masks_of(qp->qp_type, at, next)->required) == 0);
      at = next;
    };
    if (wanted == IBV_QPS_RESET) return;
    step(IBV_QPS_INIT);
    for (const ibv_qp_state next : {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD})
      if (wanted != IBV_QPS_ERR && next <= wanted) step(next);
    if (wanted == IBV_QPS_ERR) step(IBV_QPS_ERR);
  }
};

void check_one(Subject& subject, ibv_qp_state from, ibv_qp_state to) {
  const int before = failures;
  const std::optional<Masks> masks = masks_of(subject.qp->qp_type, from, to);
  subject.go(from);
  if (!masks) {
    CHECK_ERROR(EINVAL, subject.modify(from, to, 0));
    CHECK(subject.state() == from);
  } else {
    for (const int bit : kAll) {
      if ((masks->optional & bit) != 0) continue;
      CHECK_ERROR(EINVAL, subject.modify(from, to, masks->required ^ bit));
      CHECK(subject.state() == from);
      if (failures != before) std::printf("attribute 0x%x\n", static_cast<unsigned>(bit));
      if (failures != before) break;
    }
    for (const int bit : kAll) {
      if ((masks->optional & bit) == 0) continue;
      subject.go(from);
      CHECK_ERROR(0, subject.modify(from, to, masks->required | bit));
      if (failures != before) std::printf("attribute 0x%x\n", static_cast<unsigned>(bit));
    }
    subject.go(from);
    CHECK_ERROR(0, subject.modify(from, to, masks->required));
    CHECK(subject.state() == to);
  }
  if (failures != before)
    std::printf("type %d, from state %d to %d\n", int{subject.qp->qp_type}, int{from}, int{to});
}

}  // namespace

void check_transitions() {
  Ends ends(IBV_QPT_RC);
  constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                      IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    Subject subject(ends, type);
    for (const ibv_qp_state from : kStates)
      for (const ibv_qp_state to : kStates) check_one(subject, from, to);
  }
}
