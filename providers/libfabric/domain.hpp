// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and the memory registered with them. libfabric has one domain for a device:
// which region belongs to which of ours is checked at the side that posts only.
#pragma once

#include "providers/libfabric/context.hpp"

namespace weft::libfabric {

class Domain final : public verbs::Domain, public std::enable_shared_from_this<Domain> {
 public:
  Domain(const Device& device, Context& context) : device_(device), context_(context) {}

  const Device& device() const noexcept override { return device_; }
  Result<std::shared_ptr<verbs::Region>> register_memory(void* base, size_t size, uint64_t iova,
                                                         Access access) override;
  Result<std::shared_ptr<verbs::Srq>> create_srq(const SharedReceiveQueueOptions& options) override;
  Result<std::shared_ptr<verbs::Qp>> create_qp(const QueuePairOptions& options) override;

  Context& context() const noexcept { return context_; }

 private:
  const Device device_;
  Context& context_;  // the device's
};

class Region final : public verbs::Region {
 public:
  Region(std::shared_ptr<Domain> domain, Owned<fid_mr> raw, void* base, size_t size, Access access);
  ~Region() override;

  Domain& domain() const noexcept { return *domain_; }
  fid_mr& raw() const noexcept { return *raw_; }
  Access access() const noexcept { return access_; }

 private:
  const std::shared_ptr<Domain> domain_;
  Owned<fid_mr> raw_;
  const Access access_;
};

}  // namespace weft::libfabric
