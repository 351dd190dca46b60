// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of iWARP: every request is in a ledger (ledger.hpp), so that each completes once,
// whenever the connection ended.
#include <bit>
#include <cerrno>

#include "providers/ibverbs/queue/cq.hpp"
#include "providers/ibverbs/queue/post.hpp"
#include "providers/ibverbs/queue/qp.hpp"

namespace weft::ibverbs {

namespace {

Cq& queue_of(const CompletionQueue& handle) { return static_cast<Cq&>(*handle.impl()); }

}  // namespace

void Qp::keep_ledger(const std::shared_ptr<Qp>& self) {
  ledger_ = std::make_shared<Ledger>(number(), std::bit_ceil(options_.max_send_wr),
                                     options_.max_recv_wr, bool(options_.shared_receive_queue));
  ledger_->owner = self;
  queue_of(options_.send_cq).track(number(), ledger_);
  queue_of(options_.recv_cq).track(number(), ledger_);
}

// siw flushes what it has when a queue pair is destroyed, and gives its number to the next one.
void Qp::leave_queues() noexcept {
  const QpNum number = this->number();
  qp_.reset();
  queue_of(options_.send_cq).drop(number, *ledger_);
  queue_of(options_.recv_cq).drop(number, *ledger_);
}

// The connection is over. What the device has flushed comes first.
void Qp::flush_outstanding() {
  {
    const std::lock_guard lock(ledger_->mutex);
    ledger_->over = true;
  }
  queue_of(options_.send_cq).flush_outstanding(*ledger_, &Ledger::flush_sends);
  queue_of(options_.recv_cq).flush_outstanding(*ledger_, &Ledger::flush_receives);
}

// siw's part of libibverbs takes a list up to where its queue is full and says that all went well,
// and takes one of a connection that has just ended and says that it failed.
PostStatus Qp::post_checked(std::span<const SendRequest> requests) noexcept {
  const auto submit = [this](ibv_send_wr* first, ibv_send_wr** bad) {
    const int said = ibv_post_send(qp_.get(), first, bad);
    if (*bad == nullptr) return 0;
    return said == 0 ? ENOMEM : said;
  };
  return post_all<ibv_send_wr>(
      requests, kSendQueueFull,
      [this](const SendRequest& r, ibv_send_wr& work) { return translate(r, work); }, submit);
}

PostStatus Qp::post_by_ledger(std::span<const SendRequest> requests) noexcept {
  const std::lock_guard lock(ledger_->mutex);
  if (ledger_->over)
    return flush_all(requests, number(), queue_of(options_.send_cq),
                     [this](const SendRequest& r) { return invalid_reason(r); });
  const PostStatus status = post_checked(requests);
  for (const SendRequest& r : requests.first(status.accepted)) {
    const bool silent = !options_.signal_all && !has(r.flags, SendFlags::signaled);
    ledger_->note_send({r.id, work_type(r), silent});
  }
  return status;
}

PostStatus Qp::post_by_ledger(std::span<const RecvRequest> requests) noexcept {
  const std::lock_guard lock(ledger_->mutex);
  if (ledger_->over)
    return flush_all(requests, number(), queue_of(options_.recv_cq), [this](const RecvRequest& r) {
      uint32_t length = 0;
      return transport::invalid_reason(r, receive_limits_, length);
    });
  const PostStatus status = submit(requests);
  for (const RecvRequest& r : requests.first(status.accepted)) ledger_->note_receive(r.id);
  return status;
}

}  // namespace weft::ibverbs
