// SPDX-License-Identifier: BSD-3-Clause
// See cq.hpp.
#include "providers/libfabric/cq.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/check.hpp"
#include "providers/libfabric/qp.hpp"

namespace weft::libfabric {

namespace {

constexpr size_t kBatch = 32;  // of entries, on the stack

std::atomic<uint32_t> numbers{1};

void end_all(const std::vector<Qp*>& failed) noexcept {
  for (Qp* const qp : failed) {
    qp->end();
    qp->release();
  }
}

}  // namespace

Result<std::shared_ptr<verbs::Cq>> Cq::create(const Device& device, Context& context,
                                              const CompletionQueueOptions& options) {
  if (options.timestamps)
    return Error{Code::not_supported,
                 "provider libfabric has no completion timestamps: leave "
                 "CompletionQueueOptions::timestamps out, or open a roce or srd device"};
  fi_cq_attr wanted{};
  wanted.size = options.capacity;
  wanted.format = FI_CQ_FORMAT_DATA;
  wanted.wait_obj = FI_WAIT_NONE;
  fid_cq* raw = nullptr;
  if (const int code = fi_cq_open(&context.domain(), &wanted, &raw, nullptr); code != 0)
    return error_of(code, "no completion queue");
  Owned<fid_cq> owned(raw);
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0)
    return Error{Code::no_memory,
                 "no descriptor for a completion queue: close some, or raise "
                 "ulimit -n"};
  std::shared_ptr<Cq> cq(new Cq(device, context, std::move(owned), wake_fd, options.capacity));
  context.enter(*cq);
  return std::shared_ptr<verbs::Cq>(std::move(cq));
}

Cq::Cq(const Device& device, Context& context, Owned<fid_cq> raw, int wake_fd, uint32_t capacity)
    : device_(device),
      context_(context),
      number_(numbers++),
      raw_(std::move(raw)),
      wake_fd_(wake_fd),
      capacity_(capacity) {}

Cq::~Cq() {
  if (context_
          .forked()) {  // its queue pairs did not leave, and the parent's threads may hold locks
    (void)raw_.release();
    ::close(wake_fd_);
    return;
  }
  context_.leave(*this);
  WEFT_CHECK(qps_.empty());
  ::close(wake_fd_);
}

Cq* Cq::of(const CompletionQueue& handle, const Context& context) noexcept {
  auto* const cq = dynamic_cast<Cq*>(handle.impl().get());
  return cq != nullptr && &cq->context_ == &context ? cq : nullptr;
}

size_t Cq::poll(std::span<Completion> out) noexcept {
  if (context_.forked()) [[unlikely]]
    return 0;
  if (!any_.load(std::memory_order_relaxed)) (void)drain();
  if (!any_.load(std::memory_order_acquire)) return 0;
  const std::lock_guard lock(ready_mutex_);
  const size_t n = std::min(out.size(), ready_.size());
  std::copy_n(ready_.begin(), n, out.begin());
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(n));
  any_ = !ready_.empty();
  return n;
}

void Cq::add(const Completion& completion) noexcept {
  const std::lock_guard lock(ready_mutex_);
  if (ready_.size() < capacity_) {
    ready_.push_back(completion);
  } else {
    ++context_.overruns;
    if (!overrun_.exchange(true))
      context_.raise(
          {.type = EventType::cq_error, .qp = completion.qp, .completion_queue = number_});
  }
  any_ = true;
  const uint64_t one = 1;
  if (std::exchange(armed_, false)) (void)!::write(wake_fd_, &one, sizeof one);
}

bool Cq::drain() noexcept {
  std::vector<Qp*> failed;
  bool any = false;
  {
    const std::shared_lock allowed = context_.try_drain();
    if (!allowed.owns_lock()) return false;
    const std::unique_lock lock(drain_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    any = drain_locked(failed);
  }
  end_all(failed);
  return any;
}

void Cq::close(Owned<fid_ep> endpoint, Cq& send, Cq& receive) noexcept {
  std::vector<Qp*> failed;
  {
    const Context::Control control(send.context_);
    endpoint.reset();
    for (Cq* const cq : {&send, &receive}) {
      const std::lock_guard lock(cq->drain_mutex_);
      (void)cq->drain_locked(failed);
    }
  }
  end_all(failed);
}

bool Cq::drain_locked(std::vector<Qp*>& failed) noexcept {
  fi_cq_data_entry entries[kBatch];
  bool any = false;
  for (;;) {
    const ssize_t got = fi_cq_read(raw_.get(), entries, kBatch);
    if (got == -FI_EAVAIL) {
      any |= take_error();
      continue;
    }
    if (got <= 0) break;  // FI_EAGAIN: none
    any = true;
    for (ssize_t i = 0; i < got; ++i) {
      if (entries[i].op_context == nullptr) continue;
      Request& request = *static_cast<Request*>(entries[i].op_context);
      request.qp->complete(request, {Status::success, static_cast<uint32_t>(entries[i].len),
                                     entries[i].flags, entries[i].data, 0});
    }
  }
  for (Qp* const qp : qps_) any |= qp->post_delayed();
  if (overrun_)
    for (Qp* const qp : qps_) qp->fail();
  for (Qp* const qp : qps_)
    if (qp->failed()) {
      qp->keep();
      failed.push_back(qp);
    }
  return any;
}

// An entry of a request that failed. False: there was none, which ends the loop above, too.
bool Cq::take_error() noexcept {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(raw_.get(), &entry, 0) <= 0 || entry.op_context == nullptr) return false;
  Request& request = *static_cast<Request*>(entry.op_context);
  request.qp->complete(request, {status_of(entry.err), static_cast<uint32_t>(entry.len),
                                 entry.flags, 0, static_cast<uint16_t>(entry.err)});
  return true;
}

void Cq::arm(Notify) noexcept {
  const std::lock_guard lock(ready_mutex_);
  armed_ = true;
}

void Cq::acknowledge() noexcept {
  uint64_t woken = 0;
  (void)!::read(wake_fd_, &woken, sizeof woken);
}

Result<bool> Cq::resize(uint32_t capacity) {
  const std::lock_guard lock(ready_mutex_);
  if (ready_.size() > capacity) return false;
  capacity_ = capacity;
  return true;
}

Result<void> Cq::moderate(const CqModeration&) {
  return Error{Code::not_supported,
               "provider libfabric cannot moderate a completion queue: use a roce or srd device"};
}

void Cq::enter(Qp& qp) {
  const std::lock_guard lock(drain_mutex_);
  if (std::find(qps_.begin(), qps_.end(), &qp) == qps_.end()) qps_.push_back(&qp);
}

void Cq::leave(Qp& qp) noexcept {
  const std::lock_guard lock(drain_mutex_);
  std::erase(qps_, &qp);
}

}  // namespace weft::libfabric
