// SPDX-License-Identifier: BSD-3-Clause
// ibv_modify_qp and ibv_query_qp. Which attributes a transition needs and takes is checked by
// weft's QueuePair::modify(), from the same table of the IBTA as the kernel's.
#include "lib/adapters/verbs/device/port.hpp"
#include "lib/adapters/verbs/memory/access.hpp"
#include "lib/adapters/verbs/queue/ah.hpp"
#include "lib/adapters/verbs/queue/queue_pair.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kCall = "ibv_modify_qp";

constexpr int kKnownMask = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY |
                           IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY |
                           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                           IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                           IBV_QP_PATH_MIG_STATE | IBV_QP_DEST_QPN | IBV_QP_RATE_LIMIT;

// Verbs count rates in 1,000 bits per second.
Rate rate_of(uint32_t kbps) noexcept { return {int64_t{kbps} * 1000}; }

int check(const ibv_qp_attr& attr, int mask) noexcept {
  //= roce:C-AV-132
  if ((mask & IBV_QP_ALT_PATH) != 0)
    return refuse(EOPNOTSUPP, kCall, "ALT_PATH: there is no automatic path migration");
  if ((mask & IBV_QP_CAP) != 0)
    return refuse(EOPNOTSUPP, kCall, "CAP: capacities are fixed at creation");
  if ((mask & ~kKnownMask) != 0)
    return refuse(EINVAL, kCall, "attr_mask 0x%x has unknown bits", static_cast<unsigned>(mask));
  if ((mask & IBV_QP_STATE) != 0 && (attr.qp_state < IBV_QPS_RESET || attr.qp_state > IBV_QPS_ERR))
    return refuse(EINVAL, kCall, "qp_state %d is not a state", int{attr.qp_state});
  if ((mask & IBV_QP_CUR_STATE) != 0 &&
      (attr.cur_qp_state < IBV_QPS_RESET || attr.cur_qp_state > IBV_QPS_ERR))
    return refuse(EINVAL, kCall, "cur_qp_state %d is not a state", int{attr.cur_qp_state});
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096))
    return refuse(EINVAL, kCall, "path_mtu %d is not an MTU", int{attr.path_mtu});
  if ((mask & IBV_QP_PATH_MIG_STATE) != 0 && attr.path_mig_state != IBV_MIG_MIGRATED)
    return refuse(EOPNOTSUPP, kCall, "path_mig_state %d: there is no automatic path migration",
                  int{attr.path_mig_state});
  return 0;
}

// Transitions to RTS, and changes in RTS and SQD, take PATH_MIG_STATE.
int check_migration(const Qp& qp, const ibv_qp_attr& attr, int mask) noexcept {
  if ((mask & IBV_QP_PATH_MIG_STATE) == 0) return 0;
  const auto from = static_cast<ibv_qp_state>(qp.pair.state());
  const auto to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
  const bool is_within = to == IBV_QPS_RTS || (from == IBV_QPS_SQD && to == IBV_QPS_SQD);
  if (qp.init.qp_type != IBV_QPT_UD && is_within) return 0;
  return refuse(EINVAL, kCall,
                "PATH_MIG_STATE is for transitions to RTS and changes in SQD, and not for UD");
}

// An XRC queue pair has one half of RC's attributes; the kernel ignores the other half, and weft
// also the timeout of a target, which retransmits nothing.
int without_other_half(int mask, ibv_qp_type type) noexcept {
  if (type == IBV_QPT_XRC_SEND) return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (type == IBV_QPT_XRC_RECV)
    return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT);
  return mask;
}

// SRD: what each transition needs, as the kernel's driver of EFAs has it.
int check_srd(const Qp& qp, const ibv_qp_attr& attr, int mask) noexcept {
  if (qp.init.qp_type != IBV_QPT_DRIVER || (mask & IBV_QP_STATE) == 0) return 0;
  const QpState from = qp.pair.state();
  int needed = IBV_QP_STATE, taken = IBV_QP_CUR_STATE;
  if (from == QpState::reset && attr.qp_state == IBV_QPS_INIT)
    needed |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  else if (from == QpState::init && attr.qp_state == IBV_QPS_INIT)
    taken |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  else if (from == QpState::rtr && attr.qp_state == IBV_QPS_RTS)
    needed |= IBV_QP_SQ_PSN, taken |= IBV_QP_RNR_RETRY | IBV_QP_QKEY;
  else if (attr.qp_state == IBV_QPS_RTR || attr.qp_state == IBV_QPS_RTS)
    taken |= IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
  if ((mask & needed) == needed && (mask & ~(needed | taken)) == 0) return 0;
  return refuse(EINVAL, kCall, "SRD, to state %d: attr_mask 0x%x needs 0x%x and takes 0x%x",
                int{attr.qp_state}, static_cast<unsigned>(mask), static_cast<unsigned>(needed),
                static_cast<unsigned>(needed | taken));
}

QueuePairAttributes attributes_of(const Qp& qp, const ibv_qp_attr& attr, int mask) {
  const ibv_qp_type type = qp.init.qp_type;
  mask = without_other_half(mask, type);
  const auto given = [&](int bit) { return (mask & bit) != 0; };
  QueuePairAttributes to;
  if (given(IBV_QP_STATE)) to.state = static_cast<QpState>(attr.qp_state);
  if (given(IBV_QP_CUR_STATE)) to.current_state = static_cast<QpState>(attr.cur_qp_state);
  if (given(IBV_QP_EN_SQD_ASYNC_NOTIFY)) to.sq_drained_event = attr.en_sqd_async_notify != 0;
  if (given(IBV_QP_ACCESS_FLAGS)) to.access = access_of(attr.qp_access_flags & kAccessOfQueuePair);
  if (given(IBV_QP_PKEY_INDEX)) to.pkey_index = attr.pkey_index;
  if (given(IBV_QP_PORT)) to.port = attr.port_num;
  if (given(IBV_QP_QKEY)) to.qkey = attr.qkey;
  if (given(IBV_QP_AV)) to.path = path_of(*qp.context, attr.ah_attr);
  if (given(IBV_QP_PATH_MTU)) to.path_mtu = bytes_of(attr.path_mtu);
  if (given(IBV_QP_RQ_PSN)) to.rq_psn = Psn{attr.rq_psn & Psn::kMask};
  if (given(IBV_QP_SQ_PSN)) to.sq_psn = Psn{attr.sq_psn & Psn::kMask};
  if (given(IBV_QP_DEST_QPN)) to.dest_qpn = QpNum{attr.dest_qp_num};
  if (given(IBV_QP_MAX_QP_RD_ATOMIC)) to.max_rd_atomic = attr.max_rd_atomic;
  if (given(IBV_QP_MAX_DEST_RD_ATOMIC)) to.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if (given(IBV_QP_MIN_RNR_TIMER)) to.min_rnr_timer = attr.min_rnr_timer;
  if (given(IBV_QP_RETRY_CNT)) to.retry_count = attr.retry_cnt;
  if (given(IBV_QP_RNR_RETRY)) to.rnr_retry = attr.rnr_retry;
  if (given(IBV_QP_TIMEOUT)) to.timeout = attr.timeout;
  if (given(IBV_QP_RATE_LIMIT)) to.rate_limit = weft::RateLimit{.rate = rate_of(attr.rate_limit)};
  // An EFA has no rights of queue pairs: those of the regions hold.
  if (type == IBV_QPT_DRIVER && to.state == QpState::init)
    to.access = access_of(kAccessOfQueuePair);
  return to;
}

void fill(const Qp& qp, const QueuePairAttributes& from, ibv_qp_attr& to) noexcept {
  to.qp_state = to.cur_qp_state = static_cast<ibv_qp_state>(qp.pair.state());
  to.path_mtu = mtu_of(from.path_mtu.value_or(256));
  to.path_mig_state = IBV_MIG_MIGRATED;
  to.qkey = from.qkey.value_or(0);
  to.rq_psn = from.rq_psn.value_or(Psn{}).value;
  to.sq_psn = from.sq_psn.value_or(Psn{}).value;
  to.dest_qp_num = from.dest_qpn.value_or(QpNum{}).value;
  to.qp_access_flags = access_flags_of(from.access.value_or(Access::none));
  to.cap = qp.init.cap;
  to.ah_attr = from.path ? ah_attr_of(*from.path, qp.ah) : qp.ah;
  to.pkey_index = from.pkey_index.value_or(0);
  to.en_sqd_async_notify = from.sq_drained_event.value_or(false) ? 1 : 0;
  to.sq_draining = from.sq_draining.value_or(false) ? 1 : 0;
  to.max_rd_atomic = from.max_rd_atomic.value_or(0);
  to.max_dest_rd_atomic = from.max_dest_rd_atomic.value_or(0);
  to.min_rnr_timer = from.min_rnr_timer.value_or(0);
  to.port_num = static_cast<uint8_t>(from.port.value_or(1));
  to.timeout = from.timeout.value_or(0);
  to.retry_cnt = from.retry_count.value_or(0);
  to.rnr_retry = from.rnr_retry.value_or(0);
  to.rate_limit =
      static_cast<uint32_t>(from.rate_limit.value_or(RateLimit{}).rate.bits_per_second / 1000);
}

// What the packets are like (typical_pkt_sz) matters to hardware only.
int modify_rate_limit(ibv_qp* verbs, ibv_qp_rate_limit_attr* attr) noexcept {
  constexpr const char* kRateCall = "ibv_modify_qp_rate_limit";
  return without_exceptions(kRateCall, [&] {
    if (attr->comp_mask != 0)
      return refuse(EINVAL, kRateCall, "comp_mask 0x%x, and must be 0", attr->comp_mask);
    const auto modified =
        of(verbs).pair.modify({.rate_limit = RateLimit{.rate = rate_of(attr->rate_limit),
                                                       .max_burst = attr->max_burst_sz}});
    return modified ? 0 : refuse(kRateCall, modified.error());
  });
}

}  // namespace

void set_rate_limit_operation(verbs_context& verbs) noexcept {
  verbs.modify_qp_rate_limit = modify_rate_limit;
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

int ibv_modify_qp(ibv_qp* verbs, ibv_qp_attr* attr, int mask) {
  WEFT_FORWARD(verbs->context, ibv_modify_qp, verbs, attr, mask);
  return without_exceptions(kCall, [&] {
    if (const int error = check(*attr, mask)) return error;
    Qp& qp = of(verbs);
    if (const int error = check_migration(qp, *attr, mask)) return error;
    if (const int error = check_srd(qp, *attr, mask)) return error;
    if ((mask & IBV_QP_AV) != 0)
      if (const int error = check_ah(kCall, *qp.context, attr->ah_attr)) return error;
    const auto modified = qp.pair.modify(attributes_of(qp, *attr, mask));
    if (!modified && modified.error().code == weft::Code::busy)
      return refuse(EAGAIN, kCall, "%s", modified.error().message.c_str());
    if (!modified) return refuse(kCall, modified.error());
    if ((mask & IBV_QP_AV) != 0) qp.ah = attr->ah_attr;
    if ((mask & IBV_QP_STATE) == 0) return 0;
    verbs->state = attr->qp_state;
    if (attr->qp_state == IBV_QPS_RESET) drop_completions_of(*verbs);
    return 0;
  });
}

int ibv_query_qp(ibv_qp* verbs, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  WEFT_FORWARD(verbs->context, ibv_query_qp, verbs, attr, mask, init);
  return without_exceptions("ibv_query_qp", [&] {
    const Qp& qp = of(verbs);
    *attr = {};
    fill(qp, qp.pair.query(), *attr);
    *init = qp.init;
    verbs->state = attr->qp_state;
    return 0;
  });
}

int ibv_query_qp_data_in_order(ibv_qp* verbs, ibv_wr_opcode opcode, uint32_t flags) {
  WEFT_FORWARD(verbs->context, ibv_query_qp_data_in_order, verbs, opcode, flags);
  return 0;
}

void weft_verbs_refresh_state(ibv_qp* qp) {
  qp->state = static_cast<ibv_qp_state>(of(qp).pair.state());
}
