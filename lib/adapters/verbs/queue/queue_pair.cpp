// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: creation and destruction. modify_qp.cpp changes them, post.cpp and post_ex.cpp post.
#include "lib/adapters/verbs/queue/queue_pair.hpp"

#include <algorithm>
#include <memory>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/device/events.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/queue/poll.hpp"
#include "lib/adapters/verbs/queue/post_ex.hpp"
#include "lib/adapters/verbs/queue/qp_type.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kCall = "ibv_create_qp";

constexpr uint32_t kKnownMask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

bool has_mask(const ibv_qp_init_attr_ex& attr, uint32_t bit) noexcept {
  return (attr.comp_mask & bit) != 0;
}

int check_queues(const ibv_qp_init_attr_ex& attr) noexcept {
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    if (!has_mask(attr, IBV_QP_INIT_ATTR_XRCD) || attr.xrcd == nullptr)
      return refuse(EINVAL, kCall, "an XRC target needs xrcd");
    return 0;
  }
  if (!has_mask(attr, IBV_QP_INIT_ATTR_PD) || attr.pd == nullptr)
    return refuse(EINVAL, kCall, "pd is missing");
  if (attr.send_cq == nullptr) return refuse(EINVAL, kCall, "send_cq is null");
  if (attr.qp_type != IBV_QPT_XRC_SEND && attr.recv_cq == nullptr)
    return refuse(EINVAL, kCall, "recv_cq is null");
  if (attr.qp_type == IBV_QPT_XRC_SEND && attr.srq != nullptr)
    return refuse(EINVAL, kCall, "an XRC initiator takes no srq");
  return 0;
}

int check(const ibv_qp_init_attr_ex& attr) noexcept {
  if (!type_of(attr.qp_type))
    return refuse(EOPNOTSUPP, kCall, "qp_type %d: no raw packets, no types of one vendor",
                  int{attr.qp_type});
  if ((attr.comp_mask & ~kKnownMask) != 0)
    return refuse(EOPNOTSUPP, kCall, "comp_mask 0x%x: no TSO, no receive-side scaling",
                  attr.comp_mask);
  // A device never delivers a multicast datagram to its own sender: BLOCK_SELF_MCAST_LB is granted.
  constexpr uint32_t kKnownFlags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  if (has_mask(attr, IBV_QP_INIT_ATTR_CREATE_FLAGS) && (attr.create_flags & ~kKnownFlags) != 0)
    return refuse(EOPNOTSUPP, kCall, "create_flags 0x%x: only BLOCK_SELF_MCAST_LB is known",
                  attr.create_flags);
  return check_queues(attr);
}

QueuePairOptions options_of(const ibv_qp_init_attr_ex& attr) {
  QueuePairOptions options{.type = *type_of(attr.qp_type)};
  if (attr.send_cq != nullptr) options.send_cq = of(attr.send_cq).queue;
  if (attr.recv_cq != nullptr) options.recv_cq = of(attr.recv_cq).queue;
  options.max_send_wr = std::max(attr.cap.max_send_wr, 1U);
  options.max_recv_wr = attr.cap.max_recv_wr;
  options.max_send_sge = std::max(attr.cap.max_send_sge, 1U);
  options.max_recv_sge = std::max(attr.cap.max_recv_sge, 1U);
  options.max_inline = attr.cap.max_inline_data;
  options.signal_all = attr.sq_sig_all != 0;
  if (attr.srq != nullptr && !is_xrc(options.type))
    options.shared_receive_queue = of(attr.srq).queue;
  if (options.type == QpType::xrc_target) options.xrc_domain = of(attr.xrcd).domain;
  return options;
}

// Adds `step` to the users of all that the queue pair refers to.
void count_users(Qp& qp, int step) noexcept {
  if (qp.qp.qp_base.pd != nullptr) of(qp.qp.qp_base.pd).users.add(step);
  if (qp.init.send_cq != nullptr) of(qp.init.send_cq).users.add(step);
  if (qp.init.recv_cq != nullptr) of(qp.init.recv_cq).users.add(step);
  if (qp.init.srq != nullptr) of(qp.init.srq).users.add(step);
  if (qp.xrcd != nullptr) qp.xrcd->users.add(step);
}

ibv_qp_cap capacities_of(const QueuePair& pair) noexcept {
  const QueuePairCapacities has = pair.capacities();
  return {.max_send_wr = has.max_send_wr,
          .max_recv_wr = has.max_recv_wr,
          .max_send_sge = has.max_send_sge,
          .max_recv_sge = has.max_recv_sge,
          .max_inline_data = has.max_inline};
}

void fill(Qp& qp, const ibv_qp_init_attr_ex& attr, ibv_context* verbs) noexcept {
  ibv_qp& base = qp.qp.qp_base;
  const bool is_target = attr.qp_type == IBV_QPT_XRC_RECV;
  qp.init = {.qp_context = attr.qp_context,
             .send_cq = is_target ? nullptr : attr.send_cq,
             .recv_cq = is_target || attr.qp_type == IBV_QPT_XRC_SEND ? nullptr : attr.recv_cq,
             .srq = is_target ? nullptr : attr.srq,
             .cap = attr.cap,
             .qp_type = attr.qp_type,
             .sq_sig_all = attr.sq_sig_all};
  qp.xrcd = is_target ? &of(attr.xrcd) : nullptr;
  base.context = verbs;
  base.qp_context = attr.qp_context;
  base.pd = is_target ? nullptr : attr.pd;
  base.send_cq = qp.init.send_cq;
  base.recv_cq = qp.init.recv_cq;
  base.srq = qp.init.srq;
  base.qp_num = base.handle = qp.pair.number().value;
  base.state = IBV_QPS_RESET;
  base.qp_type = attr.qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
}

ibv_qp* create(ibv_context* verbs, ibv_qp_init_attr_ex& attr) {
  if (check(attr) != 0) return nullptr;
  Context& context = context_of(verbs);
  Result<ProtectionDomain> domain = attr.qp_type == IBV_QPT_XRC_RECV
                                        ? context.device.protection_domain()
                                        : Result<ProtectionDomain>(of(attr.pd).domain);
  if (!domain) return refuse_null<ibv_qp>(kCall, domain.error());
  auto pair = domain->queue_pair(options_of(attr));
  if (!pair) return refuse_null<ibv_qp>(kCall, pair.error());
  attr.cap = capacities_of(*pair);
  auto qp = std::unique_ptr<Qp>(new Qp{.qp = {}, .pair = *pair, .context = &context});
  fill(*qp, attr, verbs);
  if (has_mask(attr, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
    if (const int error = set_extended_post(*qp, attr.send_ops_flags))
      return refuse_null<ibv_qp>(error, kCall, "send_ops_flags 0x%llx for this type of queue pair",
                                 static_cast<unsigned long long>(attr.send_ops_flags));
  Adoption adoption(context, qp.get(), Kind::qp);
  {
    const std::lock_guard guard(context.entry->lock);
    context.entry->qps.emplace(pair->number().value, qp.get());
  }
  adoption.keep();
  count_users(*qp, 1);
  return &qp.release()->qp.qp_base;
}

ibv_qp* create_qp_ex(ibv_context* verbs, ibv_qp_init_attr_ex* attr) noexcept {
  if (attr->qp_type == IBV_QPT_DRIVER)
    return refuse_null<ibv_qp>(EOPNOTSUPP, kCall,
                               "IBV_QPT_DRIVER: efadv_create_qp_ex of libefa creates SRD queue "
                               "pairs");
  return without_exceptions(kCall, [&] { return create(verbs, *attr); });
}

// Under entry.lock.
const Qp* target_of(const DeviceEntry& entry, uint32_t number, const Xrcd& xrcd) noexcept {
  const auto range = entry.qps.equal_range(number);
  for (auto at = range.first; at != range.second; ++at) {
    const Qp& qp = *at->second;
    if (qp.xrcd != nullptr && qp.xrcd->domain.impl() == xrcd.domain.impl()) return &qp;
  }
  return nullptr;
}

// One more name of an XRC target, which lives until the last of them is destroyed.
ibv_qp* open_target(ibv_context* verbs, const ibv_qp_open_attr& attr) {
  constexpr const char* kOpen = "ibv_open_qp";
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if ((attr.comp_mask & ~uint32_t{IBV_QP_OPEN_ATTR_CONTEXT}) != kNeeded)
    return refuse_null<ibv_qp>(EINVAL, kOpen, "comp_mask is 0x%x, and must be NUM | XRCD | TYPE",
                               attr.comp_mask);
  if (attr.qp_type != IBV_QPT_XRC_RECV)
    return refuse_null<ibv_qp>(EINVAL, kOpen, "qp_type must be IBV_QPT_XRC_RECV");
  Context& context = context_of(verbs);
  const std::lock_guard guard(context.entry->lock);
  const Qp* const same = target_of(*context.entry, attr.qp_num, of(attr.xrcd));
  if (same == nullptr)
    return refuse_null<ibv_qp>(EINVAL, kOpen,
                               "the domain has no queue pair %u in this process: those of others "
                               "are not shared",
                               attr.qp_num);
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.xrcd = attr.xrcd;
  if ((attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) init.qp_context = attr.qp_context;
  auto qp = std::unique_ptr<Qp>(new Qp{.qp = {}, .pair = same->pair, .context = &context});
  fill(*qp, init, verbs);
  qp->qp.qp_base.state = static_cast<ibv_qp_state>(qp->pair.state());
  Adoption adoption(context, qp.get(), Kind::qp);
  context.entry->qps.emplace(attr.qp_num, qp.get());
  adoption.keep();
  count_users(*qp, 1);
  return &qp.release()->qp.qp_base;
}

ibv_qp* open_qp(ibv_context* verbs, ibv_qp_open_attr* attr) noexcept {
  return without_exceptions("ibv_open_qp", [&] { return open_target(verbs, *attr); });
}

}  // namespace

void drop_completions_of(const ibv_qp& qp) {
  for (ibv_cq* cq : {qp.send_cq, qp.recv_cq == qp.send_cq ? nullptr : qp.recv_cq})
    if (cq != nullptr) of(cq).kept.drop(qp.qp_num, of(cq).queue);
}

void set_qp_operations(verbs_context& verbs) noexcept {
  verbs.create_qp_ex = create_qp_ex;
  verbs.open_qp = open_qp;
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  WEFT_FORWARD(pd->context, ibv_create_qp, pd, attr);
  ibv_qp_init_attr_ex all{.qp_context = attr->qp_context,
                          .send_cq = attr->send_cq,
                          .recv_cq = attr->recv_cq,
                          .srq = attr->srq,
                          .cap = attr->cap,
                          .qp_type = attr->qp_type,
                          .sq_sig_all = attr->sq_sig_all,
                          .comp_mask = IBV_QP_INIT_ATTR_PD,
                          .pd = pd};
  ibv_qp* qp = create_qp_ex(pd->context, &all);
  if (qp != nullptr) attr->cap = all.cap;
  return qp;
}

int ibv_destroy_qp(ibv_qp* verbs) {
  WEFT_FORWARD(verbs->context, ibv_destroy_qp, verbs);
  constexpr const char* kDestroy = "ibv_destroy_qp";
  if (const int error = check_exists(kDestroy, verbs, Kind::qp)) return error;
  Qp& qp = of(verbs);
  Context& context = *qp.context;
  uint32_t reported = 0;
  {
    const std::lock_guard guard(context.entry->lock);
    // A parent's queue pair can be destroyed as it is.
    if (!qp.groups.empty() && context.fork == context.entry->fork)
      return refuse(EBUSY, kDestroy, "it is attached to %zu multicast groups", qp.groups.size());
    erase_own(context.entry->qps, verbs->qp_num, &qp);
    drop_events_of(context, verbs);
    reported = qp.async_events_reported;
  }
  wait_for_acks(*verbs, &ibv_qp::events_completed, reported);
  // The queue pair must be gone first, or it would add completions.
  const ibv_qp gone = *verbs;
  qp.pair = {};
  without_exceptions(kDestroy, [&] {
    drop_completions_of(gone);
    return 0;
  });
  count_users(qp, -1);
  free_extended_post(qp);
  pthread_mutex_destroy(&verbs->mutex);
  pthread_cond_destroy(&verbs->cond);
  forget(verbs);
  delete &qp;
  release(context);
  return 0;
}

const weft::Device* weft_verbs_srd_device(ibv_context* verbs) {
  if (real_library() != nullptr && is_real(verbs)) return nullptr;
  const weft::Device& device = context_of(verbs).device;
  return device.attributes().qp_type == weft::QpType::srd ? &device : nullptr;
}

ibv_qp* weft_verbs_create_srd_qp(ibv_context* verbs, ibv_qp_init_attr_ex* attr) {
  return without_exceptions("efadv_create_qp_ex", [&] { return create(verbs, *attr); });
}

const weft::QueuePair& weft_verbs_qp(ibv_qp* qp) { return of(qp).pair; }
