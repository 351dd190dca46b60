// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues, basic and of XRC.
#include <algorithm>
#include <memory>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/device/events.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kCreate = "ibv_create_srq";

int check(const ibv_srq_init_attr_ex& attr, ibv_srq_type type) noexcept {
  const auto has = [&](uint32_t bit) { return (attr.comp_mask & bit) != 0; };
  if (attr.comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED)
    return refuse(EINVAL, kCreate, "comp_mask 0x%x has unknown bits", attr.comp_mask);
  if (!has(IBV_SRQ_INIT_ATTR_PD) || attr.pd == nullptr)
    return refuse(EINVAL, kCreate, "pd is missing");
  if (attr.attr.max_wr == 0) return refuse(EINVAL, kCreate, "max_wr is 0");
  if (type == IBV_SRQT_TM) return refuse(EOPNOTSUPP, kCreate, "there is no tag matching");
  if (type == IBV_SRQT_BASIC) return 0;
  if (!has(IBV_SRQ_INIT_ATTR_XRCD) || attr.xrcd == nullptr || !has(IBV_SRQ_INIT_ATTR_CQ) ||
      attr.cq == nullptr)
    return refuse(EINVAL, kCreate, "a queue of XRC needs xrcd and cq");
  return 0;
}

void count_users(Srq& srq, int step) noexcept {
  of(srq.srq.pd).users.add(step);
  if (srq.xrcd != nullptr) srq.xrcd->users.add(step);
  if (srq.cq != nullptr) srq.cq->users.add(step);
}

ibv_srq_attr attributes_of(const SharedReceiveQueueAttributes& from) noexcept {
  return {.max_wr = from.max_recv_wr, .max_sge = from.max_recv_sge, .srq_limit = from.limit};
}

ibv_srq* create(ibv_context* verbs, ibv_srq_init_attr_ex& attr) {
  const ibv_srq_type type =
      (attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr.srq_type : IBV_SRQT_BASIC;
  if (check(attr, type) != 0) return nullptr;
  Context& context = context_of(verbs);
  const bool is_xrc = type == IBV_SRQT_XRC;
  SharedReceiveQueueOptions options{.max_recv_wr = attr.attr.max_wr,
                                    .max_recv_sge = std::max(attr.attr.max_sge, 1U)};
  if (is_xrc) {
    options.xrc_domain = of(attr.xrcd).domain;
    options.cq = of(attr.cq).queue;
  }
  auto queue = of(attr.pd).domain.shared_receive_queue(options);
  if (!queue) return refuse_null<ibv_srq>(kCreate, queue.error());
  const auto granted = queue->query();
  if (!granted) return refuse_null<ibv_srq>(kCreate, granted.error());
  attr.attr = attributes_of(*granted);
  auto srq = std::unique_ptr<Srq>(new Srq{.srq = {.context = verbs,
                                                  .srq_context = attr.srq_context,
                                                  .pd = attr.pd,
                                                  .handle = queue->number()},
                                          .queue = *queue,
                                          .context = &context,
                                          .type = type,
                                          .xrcd = is_xrc ? &of(attr.xrcd) : nullptr,
                                          .cq = is_xrc ? &of(attr.cq) : nullptr});
  pthread_mutex_init(&srq->srq.mutex, nullptr);
  pthread_cond_init(&srq->srq.cond, nullptr);
  Adoption adoption(context, srq.get(), Kind::srq);
  {
    const std::lock_guard guard(context.entry->lock);
    context.entry->srqs[queue->number()] = srq.get();
  }
  count_users(*srq, 1);
  adoption.keep();
  return &srq.release()->srq;
}

ibv_srq* create_srq_ex(ibv_context* verbs, ibv_srq_init_attr_ex* attr) noexcept {
  return without_exceptions(kCreate, [&] { return create(verbs, *attr); });
}

// Both attributes, or none.
Result<void> change(const SharedReceiveQueue& queue, const ibv_srq_attr& to, int mask) {
  if ((mask & IBV_SRQ_MAX_WR) == 0)
    return (mask & IBV_SRQ_LIMIT) == 0 ? Result<void>() : queue.arm_limit(to.srq_limit);
  if ((mask & IBV_SRQ_LIMIT) == 0) return queue.resize(to.max_wr);
  if (to.srq_limit > to.max_wr)
    return Error{Code::invalid_argument, "srq_limit " + std::to_string(to.srq_limit) +
                                             " is more than max_wr " + std::to_string(to.max_wr)};
  const auto before = queue.query();
  if (!before) return before.error();
  // A larger queue has room for the limit only then, a smaller one none for the limit of before.
  if (to.max_wr >= before->max_recv_wr) {
    const auto resized = queue.resize(to.max_wr);
    return resized ? queue.arm_limit(to.srq_limit) : resized;
  }
  const auto armed = queue.arm_limit(std::min(before->limit, to.srq_limit));
  if (!armed) return armed;
  const auto resized = queue.resize(to.max_wr);
  const auto again = queue.arm_limit(resized ? to.srq_limit : before->limit);
  return resized ? again : resized;
}

int number_of(ibv_srq* srq, uint32_t* number) noexcept {
  *number = of(srq).queue.number();
  return 0;
}

}  // namespace

void set_srq_operations(verbs_context& verbs) noexcept {
  verbs.create_srq_ex = create_srq_ex;
  verbs.get_srq_num = number_of;
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  WEFT_FORWARD(pd->context, ibv_create_srq, pd, attr);
  ibv_srq_init_attr_ex all{.srq_context = attr->srq_context,
                           .attr = attr->attr,
                           .comp_mask = IBV_SRQ_INIT_ATTR_PD,
                           .pd = pd};
  ibv_srq* srq = create_srq_ex(pd->context, &all);
  if (srq != nullptr) attr->attr = all.attr;
  return srq;
}

int ibv_modify_srq(ibv_srq* verbs, ibv_srq_attr* attr, int mask) {
  WEFT_FORWARD(verbs->context, ibv_modify_srq, verbs, attr, mask);
  constexpr const char* kCall = "ibv_modify_srq";
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0)
    return refuse(EINVAL, kCall, "srq_attr_mask 0x%x has unknown bits",
                  static_cast<unsigned>(mask));
  return without_exceptions(kCall, [&] {
    const auto changed = change(of(verbs).queue, *attr, mask);
    if (changed) return 0;
    // The kernel says EINVAL where more receives are in the queue than would fit.
    if (changed.error().code == weft::Code::busy)
      return refuse(EINVAL, kCall, "%s", changed.error().message.c_str());
    return refuse(kCall, changed.error());
  });
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  WEFT_FORWARD(srq->context, ibv_query_srq, srq, attr);
  constexpr const char* kCall = "ibv_query_srq";
  return without_exceptions(kCall, [&] {
    const auto has = of(srq).queue.query();
    if (!has) return refuse(kCall, has.error());
    *attr = attributes_of(*has);
    return 0;
  });
}

int ibv_destroy_srq(ibv_srq* verbs) {
  WEFT_FORWARD(verbs->context, ibv_destroy_srq, verbs);
  constexpr const char* kCall = "ibv_destroy_srq";
  if (const int error = check_exists(kCall, verbs, Kind::srq)) return error;
  Srq& srq = of(verbs);
  if (const int users = srq.users.count())
    return refuse(EBUSY, kCall, "%d queue pairs use it", users);
  Context& context = *srq.context;
  uint32_t reported = 0;
  {
    const std::lock_guard guard(context.entry->lock);
    erase_own(context.entry->srqs, srq.queue.number(), &srq);
    drop_events_of(context, verbs);
    reported = srq.async_events_reported;
  }
  wait_for_acks(*verbs, &ibv_srq::events_completed, reported);
  count_users(srq, -1);
  pthread_mutex_destroy(&verbs->mutex);
  pthread_cond_destroy(&verbs->cond);
  forget(verbs);
  delete &srq;
  release(context);
  return 0;
}

const weft::SharedReceiveQueue& weft_verbs_srq(ibv_srq* srq) { return of(srq).queue; }
