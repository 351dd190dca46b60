// SPDX-License-Identifier: BSD-3-Clause
// See srd_cq.hpp.
#include "providers/ibverbs/efa/srd_cq.hpp"

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "providers/ibverbs/efa/srd_qp.hpp"
#include "providers/ibverbs/queue/completion_channel.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

constexpr uint64_t kWanted = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                             IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID;

ibv_cq_ex* make(const Context& context, uint32_t capacity, ibv_comp_channel* channel, bool gid) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = capacity;
  wanted.channel = channel;
  wanted.wc_flags = kWanted;
  efadv_cq_init_attr own{};
  if (gid) own.wc_flags = EFADV_WC_EX_WITH_SGID;
  return context.srd()->efa.create_cq(context.raw(), &wanted, &own, sizeof own);
}

}  // namespace

Result<std::shared_ptr<verbs::Cq>> SrdCq::create(const Device& device, const Context& context,
                                                 const CompletionQueueOptions& options) {
  if (const Result<void> ok = check(options); !ok) return ok.error();
  const bool gid = context.srd()->limits.has(kEfaCqWithSgid);
  Owned<ibv_comp_channel> channel = make_channel(context);
  ibv_cq_ex* queue =
      channel != nullptr ? make(context, options.capacity, channel.get(), gid) : nullptr;
  if (queue == nullptr && (channel == nullptr || errno == EOPNOTSUPP)) {
    channel.reset();  // older ones have no events
    queue = make(context, options.capacity, nullptr, gid);
  }
  if (queue == nullptr) return error_of(errno, "no completion queue");
  return std::shared_ptr<verbs::Cq>(new SrdCq(device, context, std::move(channel), queue, gid));
}

SrdCq::SrdCq(const Device& device, const Context& context, Owned<ibv_comp_channel> channel,
             ibv_cq_ex* extended, bool reports_gid)
    : device_(device),
      context_(context),
      channel_(std::move(channel)),
      always_readable_(channel_ == nullptr ? eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK) : -1),
      extended_(extended),
      cq_(own(ibv_cq_ex_to_cq(extended), context.library().destroy_cq)),
      efa_(reports_gid ? context.srd()->efa.cq_from_ibv_cq_ex(extended) : nullptr),
      flushed_(channel_ != nullptr ? channel_->fd : -1) {}

SrdCq::~SrdCq() {
  if (always_readable_ >= 0) ::close(always_readable_);
}

SrdCq* SrdCq::of(const CompletionQueue& handle, const Context& context) noexcept {
  auto* const cq = dynamic_cast<SrdCq*>(handle.impl().get());
  return cq != nullptr && &cq->context_ == &context ? cq : nullptr;
}

void SrdCq::enter(SrdQp& qp) {
  const std::lock_guard lock(mutex_);
  qps_[qp.number().value] = &qp;
}

void SrdCq::leave(const SrdQp& qp) noexcept {
  const std::lock_guard lock(mutex_);
  qps_.erase(qp.number().value);
}

size_t SrdCq::poll(std::span<Completion> out) noexcept {
  if (context_.forked() || out.empty()) return 0;
  const std::lock_guard lock(mutex_);
  const size_t n = poll_device(out);
  return n + flushed_.take(out.subspan(n));
}

size_t SrdCq::poll_device(std::span<Completion> out) noexcept {
  size_t n = 0;
  ibv_poll_cq_attr none{};
  // An error other than "empty" is a completion of a destroyed queue pair: it is skipped, up to the
  // length of the queue.
  for (int skipped = 0; skipped <= cq_->cqe; ++skipped) {
    int error = ibv_start_poll(extended_, &none);
    if (error == ENOENT) return n;
    if (error != 0) continue;
    while (error == 0) {
      if (read_current(out[n])) ++n;
      if (n == out.size()) break;
      error = ibv_next_poll(extended_);
    }
    ibv_end_poll(extended_);
    if (n == out.size() || error == ENOENT) return n;
  }
  return n;
}

bool SrdCq::read_current(Completion& c) noexcept {
  c = {};
  c.qp = QpNum{ibv_wc_read_qp_num(extended_)};
  const auto found = qps_.find(c.qp.value);
  if (found == qps_.end()) return false;
  const SrdWorkId id = SrdWorkId::unpack(extended_->wr_id);
  const std::optional<SrdSlots::Entry> entry = found->second->finish(id);
  if (!entry) return false;
  c.id = entry->id;
  c.type = entry->type;
  c.status = from_verbs(extended_->status);
  if (c.status != Status::success) {
    c.vendor_error = static_cast<uint16_t>(ibv_wc_read_vendor_err(extended_));
    return true;
  }
  c.byte_count = entry->length;
  if (!id.is_send) read_receive(*found->second, c);
  return entry->signaled;
}

void SrdCq::read_receive(const SrdQp& qp, Completion& c) noexcept {
  c.byte_count = ibv_wc_read_byte_len(extended_);
  c.source_qp = QpNum{ibv_wc_read_src_qp(extended_)};
  if (ibv_wc_read_opcode(extended_) == IBV_WC_RECV_RDMA_WITH_IMM)
    c.flags = c.flags | CompletionFlags::rdma_write;
  if ((ibv_wc_read_wc_flags(extended_) & IBV_WC_WITH_IMM) != 0) {
    c.type = WorkType::recv_with_imm;
    c.flags = c.flags | CompletionFlags::with_imm;
    c.imm_or_key = ntohl(ibv_wc_read_imm_data(extended_));
  }
  // The device names a sender by the handle that we have of it, or by its address if we have none.
  ibv_gid raw{};
  if (efa_ != nullptr && efadv_wc_read_sgid(efa_, &raw) == 0)
    c.source_peer = qp.add_peer(from_verbs(raw));
  else
    c.source_peer = qp.peer_of_handle(static_cast<uint16_t>(ibv_wc_read_slid(extended_)));
}

void SrdCq::arm(Notify notify) noexcept {
  (void)notify;
  if (context_.forked() || channel_ == nullptr) return;
  flushed_.arm();
  ibv_req_notify_cq(raw(), 0);
}

void SrdCq::acknowledge() noexcept {
  if (context_.forked() || channel_ == nullptr) return;
  flushed_.acknowledge();
  read_events(context_, *channel_);
}

Result<bool> SrdCq::resize(uint32_t capacity) {
  if (capacity <= this->capacity()) return true;
  return Error{Code::not_supported,
               "an EFA cannot resize a completion queue: make it large enough at first"};
}

Result<void> SrdCq::moderate(const CqModeration& moderation) {
  if (moderation.count == 0) return {};
  return Error{Code::not_supported,
               "an EFA cannot moderate a completion queue: leave it out, or use provider srd"};
}

}  // namespace weft::ibverbs
