// SPDX-License-Identifier: BSD-3-Clause
// See cq.hpp.
#include "providers/ibverbs/queue/cq.hpp"

#include <algorithm>
#include <cerrno>

#include "providers/ibverbs/queue/completion_channel.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {
constexpr size_t kBatch = 32;  // of completions, on the stack
}  // namespace

Result<std::shared_ptr<verbs::Cq>> Cq::create(const Device& device, const Context& context,
                                              const CompletionQueueOptions& options) {
  if (const Result<void> ok = check(options); !ok) return ok.error();
  const Library& library = context.library();
  Owned<ibv_comp_channel> channel = make_channel(context);
  if (channel == nullptr) return error_of(errno, "no completion channel");
  Owned<ibv_cq> cq = own(library.create_cq(context.raw(), static_cast<int>(options.capacity),
                                           nullptr, channel.get(), 0),
                         library.destroy_cq);
  if (cq == nullptr) return error_of(errno, "no completion queue");
  return std::shared_ptr<verbs::Cq>(new Cq(device, context, std::move(channel), std::move(cq)));
}

Cq::Cq(const Device& device, const Context& context, Owned<ibv_comp_channel> channel,
       Owned<ibv_cq> cq)
    : device_(device),
      context_(context),
      channel_(std::move(channel)),
      cq_(std::move(cq)),
      flushed_(context.attributes().only_by_cm ? channel_->fd : -1) {}

size_t Cq::poll(std::span<Completion> out) noexcept {
  if (mark_.passed()) [[unlikely]]
    return 0;
  if (context_.attributes().only_by_cm) return poll_by_ledger(out);
  size_t total = 0;
  ibv_wc done[kBatch];
  for (bool more = !out.empty(); more;) {
    const auto wanted = static_cast<int>(std::min(kBatch, out.size() - total));
    const int got = ibv_poll_cq(raw(), wanted, done);
    for (int i = 0; i < got; ++i) take(done[i], out[total++]);
    more = got == wanted && total < out.size();
  }
  return total;
}

void Cq::take(const ibv_wc& done, Completion& c) noexcept {
  from_verbs(done, c);
  if (has(c.flags, CompletionFlags::grh) && !has_header(c.qp))
    c.flags = static_cast<CompletionFlags>(static_cast<uint32_t>(c.flags) &
                                           ~static_cast<uint32_t>(CompletionFlags::grh));
}

Result<bool> Cq::resize(uint32_t capacity) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  const int error = context_.library().resize_cq(raw(), static_cast<int>(capacity));
  if (error == EINVAL || error == EBUSY) return false;
  if (error != 0) return error_of(error, "the completion queue cannot be resized");
  return true;
}

// An operation of the open context, as posting is (library.hpp): only some devices have it.
Result<void> Cq::moderate(const CqModeration& moderation) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  ibv_modify_cq_attr change{};
  change.attr_mask = IBV_CQ_ATTR_MODERATE;
  change.moderate.cq_count = moderation.count;
  change.moderate.cq_period = static_cast<uint16_t>(moderation.period.us());
  const int error = ibv_modify_cq(raw(), &change);
  if (error == 0) return {};
  return error_of(error, "the device behind ibverbs cannot moderate a completion queue");
}

void Cq::note_datagrams(QpNum number) {
  const std::lock_guard lock(mutex_);
  datagrams_.insert(number);
  datagram_pairs_ = datagrams_.size();
}

void Cq::forget_datagrams(QpNum number) {
  const std::lock_guard lock(mutex_);
  datagrams_.erase(number);
  datagram_pairs_ = datagrams_.size();
}

bool Cq::has_header(QpNum number) noexcept {
  if (datagram_pairs_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  return datagrams_.contains(number);
}

void Cq::arm(Notify notify) noexcept {
  if (context_.forked()) return;
  // iWARP: for all, because siw 6.1 never wakes threads that wait for solicited ones.
  const bool some = notify == Notify::solicited && !context_.attributes().only_by_cm;
  flushed_.arm();
  ibv_req_notify_cq(raw(), some ? 1 : 0);
}

void Cq::acknowledge() noexcept {
  if (context_.forked()) return;
  flushed_.acknowledge();
  read_events(context_, *channel_);
}

}  // namespace weft::ibverbs
