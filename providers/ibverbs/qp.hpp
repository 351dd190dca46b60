// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of a device. Legal transitions and what each needs are checked as for every other
// provider, so that the error names the attribute; the state that is reported is the device's.
#pragma once

#include <atomic>
#include <map>

#include "lib/engine/verbs_common.hpp"
#include "providers/ibverbs/device_qp.hpp"

namespace weft::ibverbs {

class Qp final : public DeviceQp {
 public:
  static Result<std::shared_ptr<verbs::Qp>> create(std::shared_ptr<Domain> domain,
                                                   const QueuePairOptions& options);

  ~Qp() override;

  QpState state() const noexcept override;
  Result<void> modify(const QueuePairAttributes& change) override;
  PostStatus post_send(std::span<const SendRequest> requests) noexcept override;
  PostStatus post_recv(std::span<const RecvRequest> requests) noexcept override;
  Result<void> attach_multicast(const Gid& group) override;
  Result<void> detach_multicast(const Gid& group) override;

  // A step to RTR or RTS as the kernel's connection manager says it (rdma_init_qp_attr).
  Result<void> follow(const ibv_qp_attr& said, int mask);
  // iWARP: the connection manager has moved it to RTS.
  void note_connected(uint8_t max_rd_atomic);

 private:
  Qp(std::shared_ptr<Domain> domain, const QueuePairOptions& options, Owned<ibv_qp> qp);

  Result<void> apply(const QueuePairAttributes& change, const ibv_ah_attr* way);
  // Fills in `work`, or says what is wrong with the request.
  const char* translate(const SendRequest& r, ibv_send_wr& work) noexcept;
  const char* objection(const SendRequest& r) const noexcept;
  PostStatus post_list(std::span<const SendRequest> requests) noexcept;
  PostStatus bind(const SendRequest& r) noexcept;
  bool takes_sends() const noexcept;
  engine::RequestLimits receive_limits() const noexcept {
    return {options_.max_recv_sge, 0, context().attributes().max_message};
  }
  void flush() noexcept;

  std::map<Gid, int> groups_;  // under the mutex: a socket that has each joined in the kernel
  // What posting must know, without a lock.
  std::atomic<QpState> reached_{QpState::reset};  // by modify(); the device may have gone on to ERR
  std::atomic<uint8_t> max_rd_atomic_{0};
};

}  // namespace weft::ibverbs
