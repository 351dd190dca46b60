// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of an EFA for SRD. At weft's API they are as those of the provider `srd`: each
// request names its peer, requests complete in any order, one that fails leaves the others alone,
// and what is posted in ERR comes back flushed, which the device would refuse.
#pragma once

#include "providers/ibverbs/efa/srd_cq.hpp"
#include "providers/ibverbs/efa/srd_request.hpp"
#include "providers/ibverbs/queue/device_qp.hpp"

namespace weft::ibverbs {

class SrdQp final : public DeviceQp {
 public:
  static Result<std::shared_ptr<verbs::Qp>> create(std::shared_ptr<Domain> domain,
                                                   const QueuePairOptions& options);
  ~SrdQp() override;

  Result<void> modify(const QueuePairAttributes& change) override;
  PostStatus post_send(std::span<const SendRequest> requests) noexcept override;
  PostStatus post_recv(std::span<const RecvRequest> requests) noexcept override;

  // For the completion queue, which holds its lock: what a finished request was.
  std::optional<SrdSlots::Entry> finish(const SrdWorkId& id) noexcept;
  // The number of a peer by the device's number of its handle, and of one that has no handle yet:
  // it gets one, for the device serves WRITEs and READs only of those that it has a handle of.
  uint32_t peer_of_handle(uint16_t handle) const noexcept;
  uint32_t add_peer(const Gid& address) const noexcept;

 private:
  struct Prepared {
    const SendRequest* request = nullptr;
    SrdDestination to;
    uint32_t slot = 0;
  };
  SrdQp(std::shared_ptr<Domain> domain, const QueuePairOptions& options, Owned<ibv_qp> qp,
        ibv_qp_ex* extended);

  EfaSrd& efa_srd() const noexcept { return *context().srd(); }
  Result<void> step(QpState from, QpState to, const QueuePairAttributes& said);
  // Why a request cannot be posted, or nullptr. `length` gets the sum of its entries.
  const char* invalid_reason(const SendRequest& r, uint32_t& length) const noexcept;
  PostStatus prepare(const SendRequest& r, Prepared& p) noexcept;
  int submit(std::span<const Prepared> batch) noexcept;
  PostStatus post_batch(std::span<const SendRequest> requests) noexcept;
  PostStatus post_one(const RecvRequest& r, uint32_t before) noexcept;

  transport::RequestLimits receive_limits() const noexcept {
    return {options_.max_recv_sge, 0, UINT32_MAX};
  }

  ibv_qp_ex* const extended_;
  // Under the mutex, which is taken after a completion queue's where both are.
  QpState reached_ = QpState::reset;  // by modify()
  uint32_t qkey_;
  uint32_t resets_ = 0;
  SrdSlots sends_, receives_;
};

}  // namespace weft::ibverbs
