// SPDX-License-Identifier: BSD-3-Clause
// See region.hpp.
#include "providers/ibverbs/context/region.hpp"

#include <cerrno>

namespace weft::ibverbs {

Result<std::shared_ptr<verbs::Window>> Window::create(std::shared_ptr<Domain> domain,
                                                      WindowType type) {
  ibv_mw* const raw =
      ibv_alloc_mw(domain->raw(), type == WindowType::one ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
  if (raw == nullptr && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
    return Error{Code::not_supported, "the device has no memory windows of this type"};
  if (raw == nullptr) return error_of(errno, "the device did not make a memory window");
  return std::shared_ptr<verbs::Window>(new Window(std::move(domain), type, raw));
}

Window::Window(std::shared_ptr<Domain> domain, WindowType type, ibv_mw* raw)
    : verbs::Window(type, raw->rkey >> 8), domain_(std::move(domain)), raw_(raw), key_(raw->rkey) {
  const std::lock_guard lock(domain_->windows().mutex);
  domain_->windows().all.insert(this);
}

Window::~Window() {
  const std::lock_guard lock(domain_->windows().mutex);
  domain_->windows().all.erase(this);
  free();
}

void Window::record_binding(const Region* region) noexcept {
  region_ = region;
  key_.store(raw_->rkey, std::memory_order_relaxed);
}

void Window::free() noexcept {
  if (raw_ != nullptr && !mark_.passed()) ibv_dealloc_mw(raw_);
  raw_ = nullptr;
  region_ = nullptr;
}

Region::Region(std::shared_ptr<Domain> domain, Owned<ibv_mr> region, void* at, size_t length,
               uint64_t address)
    : domain_(std::move(domain)), region_(std::move(region)) {
  base = at;
  size = length;
  iova = address;
  lkey = LKey{region_->lkey};
  rkey = RKey{region_->rkey};
}

Region::~Region() {
  const std::lock_guard lock(domain_->windows().mutex);
  for (Window* const window : domain_->windows().all)
    if (window->region() == this) window->free();
}

const Window* window_of(const SendRequest& r) noexcept {
  if (r.bind == nullptr || r.bind->window == nullptr) return nullptr;
  return dynamic_cast<const Window*>(r.bind->window->impl().get());
}

const Region* region_of(const SendRequest& r) noexcept {
  if (r.bind->region == nullptr) return nullptr;
  return dynamic_cast<const Region*>(r.bind->region->impl().get());
}

}  // namespace weft::ibverbs
