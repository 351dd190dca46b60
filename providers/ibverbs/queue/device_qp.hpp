// SPDX-License-Identifier: BSD-3-Clause
// What queue pairs of every kind are on a device: the device's object with its number and state,
// and what modify() has set.
#pragma once

#include <mutex>

#include "providers/ibverbs/context/domain.hpp"

namespace weft::ibverbs {

class DeviceQp : public verbs::Qp {
 public:
  QpNum number() const noexcept final { return QpNum{qp_->qp_num}; }
  QpType type() const noexcept final { return options_.type; }
  QpState state() const noexcept override;  // the device's word
  const Device& device() const noexcept final { return domain_->device(); }
  QueuePairAttributes query() const final;
  QueuePairCapacities capacities() const noexcept final;

 protected:
  DeviceQp(std::shared_ptr<Domain> domain, const QueuePairOptions& options, Owned<ibv_qp> qp)
      : domain_(std::move(domain)), options_(options), qp_(std::move(qp)) {}

  const Context& context() const noexcept { return domain_->context(); }

  const std::shared_ptr<Domain> domain_;  // kept alive, as are the queues in `options_`
  const QueuePairOptions options_;
  Owned<ibv_qp> qp_;
  mutable std::mutex mutex_;
  QueuePairAttributes attributes_;  // under the mutex
};

}  // namespace weft::ibverbs
