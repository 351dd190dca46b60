// SPDX-License-Identifier: BSD-3-Clause
// See context.hpp.
#include "providers/libfabric/context.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/memory_permitting.hpp"
#include "providers/libfabric/cq.hpp"
#include "providers/libfabric/domain.hpp"

namespace weft::libfabric {

namespace {
// Between two looks of the thread, while there is traffic and when there is none.
constexpr std::chrono::microseconds kBusy{20}, kIdle{500};
constexpr int kIdleLooks = 100;
constexpr size_t kMaxEvents = 1024;  // of which the program has read none
}  // namespace

Context::Context(Info info, Owned<fid_fabric> fabric, Owned<fid_domain> domain,
                 Owned<fid_av> addresses, DeviceAttributes attributes, bool confirms)
    : info_(std::move(info)),
      fabric_(std::move(fabric)),
      domain_(std::move(domain)),
      addresses_(std::move(addresses)),
      attributes_(std::move(attributes)),
      confirmation_(confirms ? FI_DELIVERY_COMPLETE : FI_TRANSMIT_COMPLETE),
      event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Context::~Context() {
  stop_ = true;
  if (thread_.joinable()) {
    if (forked())
      thread_.detach();
    else
      thread_.join();
  }
  WEFT_CHECK(forked() || (cqs_.empty() && regions_.empty()));
  if (event_fd_ >= 0) ::close(event_fd_);
}

Result<std::shared_ptr<verbs::Domain>> Context::create_domain(const Device& device) {
  if (forked()) return Error{Code::permission_denied, kForked};
  return std::shared_ptr<verbs::Domain>(new Domain(device, *this));
}

Result<std::shared_ptr<verbs::Cq>> Context::create_cq(const Device& device,
                                                      const CompletionQueueOptions& options) {
  if (forked()) return Error{Code::permission_denied, kForked};
  return Cq::create(device, *this, options);
}

Instant Context::now() const noexcept { return base::Clock::process().now(); }

std::vector<Counter> Context::counters() const {
  return {{"requests_sent", sends},
          {"messages_received", receives},
          {"completions_in_error", errors},
          {"posts_delayed_by_libfabric", delayed},
          {"cq_overruns", overruns}};
}

void Context::raise(const AsyncEvent& event) noexcept {
  const std::lock_guard lock(events_mutex_);
  const bool kept =
      events_.size() < kMaxEvents && base::memory_permitting([&] { events_.push_back(event); });
  const uint64_t one = 1;
  if (kept && events_.size() == 1) (void)!::write(event_fd_, &one, sizeof one);
}

std::optional<AsyncEvent> Context::next_event() {
  const std::lock_guard lock(events_mutex_);
  if (events_.empty()) return std::nullopt;
  const AsyncEvent event = events_.front();
  events_.pop_front();
  uint64_t written = 0;
  if (events_.empty()) (void)!::read(event_fd_, &written, sizeof written);
  return event;
}

void Context::enter(Cq& cq) {
  const std::lock_guard lock(cqs_mutex_);
  cqs_.push_back(&cq);
}

void Context::leave(Cq& cq) noexcept {
  const std::lock_guard lock(cqs_mutex_);
  std::erase(cqs_, &cq);
}

void Context::progress() noexcept {
  if (forked()) return;
  const std::lock_guard lock(cqs_mutex_);
  for (Cq* const cq : cqs_) (void)cq->drain();
}

void Context::need_progress() {
  const std::lock_guard lock(cqs_mutex_);
  const bool by_itself = info_->domain_attr->data_progress == FI_PROGRESS_AUTO &&
                         info_->domain_attr->control_progress == FI_PROGRESS_AUTO;
  if (!by_itself && !thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Context::run() noexcept {
  for (int idle = 0; !stop_;) {
    bool any = false;
    {
      const std::lock_guard lock(cqs_mutex_);
      for (Cq* const cq : cqs_) any |= cq->drain();
    }
    idle = any ? 0 : std::min(idle + 1, kIdleLooks);
    std::this_thread::sleep_for(idle < kIdleLooks ? kBusy : kIdle);
  }
}

LKey Context::enter(Region& region) {
  const std::lock_guard lock(regions_mutex_);
  while (next_key_ == 0 || regions_.contains(next_key_)) ++next_key_;
  regions_[next_key_] = &region;
  return LKey{next_key_++};
}

void Context::leave(LKey key) noexcept {
  const std::lock_guard lock(regions_mutex_);
  regions_.erase(key.value);
}

fid_mr* Context::find(LKey key, const verbs::Domain& owner, const void* address, uint32_t length,
                      bool written) const noexcept {
  const std::shared_lock lock(regions_mutex_);
  const auto found = regions_.find(key.value);
  if (found == regions_.end()) return nullptr;
  const Region& region = *found->second;
  const auto begin = reinterpret_cast<uintptr_t>(region.base);
  const auto at = reinterpret_cast<uintptr_t>(address);
  const bool inside = at >= begin && length <= region.size && at - begin <= region.size - length;
  const bool may = !written || has(region.access(), Access::local_write);
  return inside && may && &region.domain() == &owner ? &region.raw() : nullptr;
}

}  // namespace weft::libfabric
