// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues of a device.
#pragma once

#include <atomic>

#include "providers/ibverbs/context/domain.hpp"
#include "providers/ibverbs/queue/xrc.hpp"

namespace weft::ibverbs {

class Srq final : public verbs::Srq {
 public:
  static Result<std::shared_ptr<verbs::Srq>> create(std::shared_ptr<Domain> domain,
                                                    const SharedReceiveQueueOptions& options);

  uint32_t number() const noexcept override { return number_of(raw()); }
  PostStatus post_recv(std::span<const RecvRequest> requests) noexcept override;
  Result<void> arm_limit(uint32_t limit) override;
  Result<SharedReceiveQueueAttributes> query() const override;
  Result<void> resize(uint32_t max_recv_wr) override;

  ibv_srq* raw() const noexcept { return srq_.get(); }
  const Domain& domain() const noexcept { return *domain_; }
  bool is_xrc() const noexcept { return bool(options_.xrc_domain); }

 private:
  Srq(std::shared_ptr<Domain> domain, const SharedReceiveQueueOptions& options, Owned<ibv_srq> srq)
      : domain_(std::move(domain)),
        options_(options),
        max_recv_wr_(options.max_recv_wr),
        srq_(std::move(srq)) {}

  const std::shared_ptr<Domain> domain_;  // kept alive, as are domain and queue in `options_`
  const SharedReceiveQueueOptions options_;
  std::atomic<uint32_t> max_recv_wr_;
  std::atomic<uint32_t> limit_{0};  // of the last arm_limit()
  const Owned<ibv_srq> srq_;
};

}  // namespace weft::ibverbs
