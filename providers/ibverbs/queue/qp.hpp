// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of a device. Legal transitions and what each needs are checked as for every other
// provider, so that the error names the attribute; the state that is reported is the device's.
#pragma once

#include <atomic>
#include <map>

#include "lib/transport/verbs_common.hpp"
#include "providers/ibverbs/queue/device_qp.hpp"
#include "providers/ibverbs/queue/ledger.hpp"

namespace weft::ibverbs {

// Sets of opcodes have a bit for each; one that weft does not know is in none.
constexpr uint32_t opcode_bit(Opcode opcode) noexcept {
  return opcode <= Opcode::local_invalidate ? 1u << static_cast<uint32_t>(opcode) : 0;
}
// Those that can be posted to such a queue pair.
uint32_t usable_opcodes(QpType type, const DeviceAttributes& device,
                        uint32_t max_rd_atomic) noexcept;

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
  // `extended`: the same queue pair, where the device has ibv_wr_*, else null.
  Qp(std::shared_ptr<Domain> domain, const QueuePairOptions& options, Owned<ibv_qp> qp,
     ibv_qp_ex* extended);

  void keep_ledger(const std::shared_ptr<Qp>& self);
  Result<void> apply(const QueuePairAttributes& change, const ibv_ah_attr* cm_path);
  Result<void> set_rate_limit(const RateLimit& limit);
  void set_max_rd_atomic(uint32_t max_rd_atomic) noexcept;
  // Nothing can be wrong with it. Of others invalid_reason() says whether something is.
  bool is_plain(const SendRequest& r) const noexcept {
    const Plain& plain = plain_[has(r.flags, SendFlags::inline_data) ? 1 : 0];
    return (plain.opcodes.load(std::memory_order_relaxed) & opcode_bit(r.opcode)) != 0 &&
           r.imm_high == 0 && r.sges.size() == 1 && r.sges[0].length <= plain.longest;
  }
  // What is wrong with a request, or nullptr.
  const char* invalid_reason(const SendRequest& r) const noexcept;
  const char* invalid_opcode_reason(Opcode opcode) const noexcept;
  // Fills in `work`, or says what is wrong with the request.
  const char* translate(const SendRequest& r, ibv_send_wr& work) noexcept;
  PostStatus post_send_otherwise(std::span<const SendRequest> requests) noexcept;
  PostStatus post_in_order(std::span<const SendRequest> requests) noexcept;
  PostStatus post_some(std::span<const SendRequest> requests) noexcept;
  PostStatus post_extended(std::span<const SendRequest> requests) noexcept;
  int issue(std::span<const SendRequest> requests, ibv_ah* const* handles) noexcept;
  PostStatus post_list(std::span<const SendRequest> requests) noexcept;
  PostStatus bind(const SendRequest& r) noexcept;
  bool takes_sends() const noexcept;
  PostStatus submit(std::span<const RecvRequest> requests) noexcept;
  PostStatus post_recv_otherwise(std::span<const RecvRequest> requests) noexcept;
  void flush() noexcept;
  // iWARP, qp_iwarp.cpp:
  PostStatus post_by_ledger(std::span<const SendRequest> requests) noexcept;
  PostStatus post_by_ledger(std::span<const RecvRequest> requests) noexcept;
  PostStatus post_checked(std::span<const SendRequest> requests) noexcept;
  void flush_outstanding();
  void leave_queues() noexcept;

  std::map<Gid, int> groups_;  // under the mutex: a socket that has each joined in the kernel
  // What posting must know, without a lock.
  ibv_qp_ex* const extended_;
  std::shared_ptr<Ledger> ledger_;  // iWARP only
  const base::ForkMark mark_;
  const transport::RequestLimits send_limits_, receive_limits_;
  const bool receives_plainly_;  // into a receive queue of its own, without a ledger
  std::atomic<QpState> reached_{QpState::reset};  // by modify(); the device may be in ERR
  std::atomic<uint32_t> usable_{0};               // opcodes
  // What has one entry and no more rules than these; the other one is of inline data.
  struct Plain {
    std::atomic<uint32_t> opcodes{0};
    uint32_t longest = 0;
  } plain_[2];
};

}  // namespace weft::ibverbs
