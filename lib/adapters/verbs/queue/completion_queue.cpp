// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: creation in both ways, destruction, resizing, moderation and notification.
#include <memory>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/device/events.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/queue/channel.hpp"
#include "lib/adapters/verbs/queue/poll_ex.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr uint64_t kTimeFlags =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

int check(const char* call, const ibv_context* verbs, const ibv_cq_init_attr_ex& attr) noexcept {
  if (attr.cqe == 0) return refuse(EINVAL, call, "cqe is 0");
  if (attr.comp_vector >= static_cast<uint32_t>(verbs->num_comp_vectors))
    return refuse(EINVAL, call, "comp_vector %u: the device has %d", attr.comp_vector,
                  verbs->num_comp_vectors);
  if ((attr.wc_flags & ~(uint64_t{IBV_WC_STANDARD_FLAGS} | kTimeFlags)) != 0)
    return refuse(EOPNOTSUPP, call, "wc_flags 0x%llx: no VLAN, flow tag or tag matching",
                  static_cast<unsigned long long>(attr.wc_flags));
  constexpr uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if ((attr.comp_mask & ~kKnown) != 0)
    return refuse(EINVAL, call, "comp_mask 0x%x has unknown bits", attr.comp_mask);
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) == 0) return 0;
  if ((attr.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0)
    return refuse(EOPNOTSUPP, call, "IGNORE_OVERRUN: an overrun always raises IBV_EVENT_CQ_ERR");
  if ((attr.flags & ~uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0)
    return refuse(EINVAL, call, "flags 0x%x have unknown bits", attr.flags);
  return 0;
}

Cq* create(const char* call, ibv_context* verbs, const ibv_cq_init_attr_ex& attr) {
  if (check(call, verbs, attr) != 0) return nullptr;
  Context& context = context_of(verbs);
  const bool with_times = (attr.wc_flags & kTimeFlags) != 0;
  auto queue = context.device.completion_queue({.capacity = attr.cqe, .timestamps = with_times});
  if (!queue) return refuse_null<Cq>(call, queue.error());
  static std::atomic<uint32_t> last_handle{0};
  auto cq = std::unique_ptr<Cq>(new Cq{.cq = {}, .queue = *queue, .context = &context});
  cq->with_times = with_times;
  cq->cq.context = verbs;
  cq->cq.channel = attr.channel;
  cq->cq.cq_context = attr.cq_context;
  cq->cq.handle = ++last_handle;
  cq->cq.cqe = static_cast<int>(queue->capacity());
  pthread_mutex_init(&cq->cq.mutex, nullptr);
  pthread_cond_init(&cq->cq.cond, nullptr);
  set_extended_poll(*cq, attr.wc_flags);
  Adoption adoption(context, cq.get(), Kind::cq);
  {
    const std::lock_guard guard(context.entry->lock);
    context.entry->cqs[queue->number()] = cq.get();
  }
  if (attr.channel != nullptr)
    if (const int error = add_to_channel(*cq)) {
      const std::lock_guard guard(context.entry->lock);
      context.entry->cqs.erase(queue->number());
      return refuse_null<Cq>(error, call, "the channel cannot watch the queue");
    }
  adoption.keep();
  return cq.release();
}

ibv_cq_ex* create_cq_ex(ibv_context* verbs, ibv_cq_init_attr_ex* attr) noexcept {
  constexpr const char* kCall = "ibv_create_cq_ex";
  Cq* cq = without_exceptions(kCall, [&] { return create(kCall, verbs, *attr); });
  return cq == nullptr ? nullptr : &cq->cq;
}

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) noexcept {
  constexpr const char* kCall = "ibv_modify_cq";
  if ((attr->attr_mask & ~uint32_t{IBV_CQ_ATTR_MODERATE}) != 0)
    return refuse(EOPNOTSUPP, kCall, "attr_mask 0x%x has unknown bits", attr->attr_mask);
  if ((attr->attr_mask & IBV_CQ_ATTR_MODERATE) == 0) return 0;
  // 0 in one of the two means that the other one alone counts.
  uint16_t count = attr->moderate.cq_count;
  uint16_t period = attr->moderate.cq_period;
  if (count == 0 && period != 0) count = UINT16_MAX;
  if (period == 0 && count > 1) period = UINT16_MAX;
  if (count <= 1) count = period = 0;
  const auto moderated =
      of(cq).queue.moderate({.count = count, .period = Duration::from_us(period)});
  return moderated ? 0 : refuse(kCall, moderated.error());
}

int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
  of(cq).queue.arm(solicited_only != 0 ? Notify::solicited : Notify::all);
  return 0;
}

}  // namespace

void set_cq_operations(verbs_context& verbs) noexcept {
  verbs.create_cq_ex = create_cq_ex;
  verbs.modify_cq = modify_cq;
  verbs.context.ops.req_notify_cq = req_notify_cq;
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_cq* ibv_create_cq(ibv_context* verbs, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int comp_vector) {
  WEFT_FORWARD(verbs, ibv_create_cq, verbs, cqe, cq_context, channel, comp_vector);
  constexpr const char* kCall = "ibv_create_cq";
  if (cqe <= 0) return refuse_null<ibv_cq>(EINVAL, kCall, "cqe is %d", cqe);
  const ibv_cq_init_attr_ex attr{.cqe = static_cast<uint32_t>(cqe),
                                 .cq_context = cq_context,
                                 .channel = channel,
                                 .comp_vector = static_cast<uint32_t>(comp_vector),
                                 .wc_flags = IBV_WC_STANDARD_FLAGS};
  Cq* cq = without_exceptions(kCall, [&] { return create(kCall, verbs, attr); });
  return cq == nullptr ? nullptr : cq_of(*cq);
}

int ibv_resize_cq(ibv_cq* verbs, int cqe) {
  WEFT_FORWARD(verbs->context, ibv_resize_cq, verbs, cqe);
  constexpr const char* kCall = "ibv_resize_cq";
  if (cqe <= 0) return refuse(EINVAL, kCall, "cqe is %d", cqe);
  return without_exceptions(kCall, [&] {
    Cq& cq = of(verbs);
    const auto resized = cq.queue.resize(static_cast<uint32_t>(cqe));
    // The kernel says EINVAL where more completions are in the queue than would fit.
    if (!resized && resized.error().code == weft::Code::busy)
      return refuse(EINVAL, kCall, "%s", resized.error().message.c_str());
    if (!resized) return refuse(kCall, resized.error());
    verbs->cqe = static_cast<int>(cq.queue.capacity());
    return 0;
  });
}

int ibv_destroy_cq(ibv_cq* verbs) {
  WEFT_FORWARD(verbs->context, ibv_destroy_cq, verbs);
  constexpr const char* kCall = "ibv_destroy_cq";
  if (const int error = check_exists(kCall, verbs, Kind::cq)) return error;
  Cq& cq = of(verbs);
  if (const int users = cq.users.count())
    return refuse(EBUSY, kCall, "%d queues complete in it", users);
  Context& context = *cq.context;
  const uint32_t completions = remove_from_channel(cq);
  uint32_t async = 0;
  {
    const std::lock_guard guard(context.entry->lock);
    erase_own(context.entry->cqs, cq.queue.number(), &cq);
    drop_events_of(context, verbs);
    async = cq.async_events_reported;
  }
  wait_for_acks(cq.cq, &ibv_cq_ex::comp_events_completed, completions);
  wait_for_acks(cq.cq, &ibv_cq_ex::async_events_completed, async);
  pthread_mutex_destroy(&verbs->mutex);
  pthread_cond_destroy(&verbs->cond);
  forget(verbs);
  delete &cq;
  release(context);
  return 0;
}

const weft::CompletionQueue& weft_verbs_cq(ibv_cq* cq) { return of(cq).queue; }
