// SPDX-License-Identifier: BSD-3-Clause
// Regions of a device, and the windows on them. A device does not deregister a region to which
// windows are bound, so they are freed first; posting with a destroyed window is an error.
#pragma once

#include <atomic>

#include "providers/ibverbs/context/domain.hpp"

namespace weft::ibverbs {

class Region;

class Window final : public verbs::Window {
 public:
  static Result<std::shared_ptr<verbs::Window>> create(std::shared_ptr<Domain> domain,
                                                       WindowType type);
  ~Window() override;

  RKey rkey() const noexcept override { return RKey{key_.load(std::memory_order_relaxed)}; }
  const Domain& domain() const noexcept { return *domain_; }

  // The rest under Domain::windows().mutex.
  ibv_mw* raw() const noexcept { return raw_; }  // nullptr: it was freed with its region
  const Region* region() const noexcept { return region_; }
  // A binding to `region` was posted; `raw()` has its key.
  void record_binding(const Region* region) noexcept;
  void free() noexcept;

 private:
  Window(std::shared_ptr<Domain> domain, WindowType type, ibv_mw* raw);

  const std::shared_ptr<Domain> domain_;  // kept alive
  const base::ForkMark mark_{};
  ibv_mw* raw_;
  const Region* region_ = nullptr;  // of the last binding that was posted
  std::atomic<uint32_t> key_;
};

class Region final : public verbs::Region {
 public:
  Region(std::shared_ptr<Domain> domain, Owned<ibv_mr> region, void* at, size_t length,
         uint64_t iova);
  ~Region() override;
  Result<void> reregister(const Reregistration& change, const verbs::Domain* domain) override;

  ibv_mr* raw() const noexcept { return region_.get(); }
  const Domain& domain() const noexcept { return *domain_; }

 private:
  std::shared_ptr<const Domain> keep_alive(const verbs::Domain* domain) const;

  const std::shared_ptr<Domain> domain_;           // kept alive
  std::shared_ptr<const Domain> reregistered_in_;  // likewise
  const Owned<ibv_mr> region_;
};

// What a request to bind names; null: nothing of this device.
const Window* window_of(const SendRequest& r) noexcept;
const Region* region_of(const SendRequest& r) noexcept;

}  // namespace weft::ibverbs
