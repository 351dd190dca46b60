// SPDX-License-Identifier: BSD-3-Clause
// A queue pair of RC: an endpoint for reliable datagrams (FI_EP_RDM) that sends to one peer, with
// the states, the order of completions and the flushing of verbs.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "lib/transport/verbs_common.hpp"
#include "providers/libfabric/domain.hpp"
#include "providers/libfabric/endpoint_name.hpp"
#include "providers/libfabric/request.hpp"

namespace weft::libfabric {

class Cq;

class Qp final : public verbs::Qp {
 public:
  static Result<std::shared_ptr<verbs::Qp>> create(std::shared_ptr<Domain> domain,
                                                   const QueuePairOptions& options);
  ~Qp() override;

  QpNum number() const noexcept override { return name_.number; }
  QpType type() const noexcept override { return QpType::rc; }
  QpState state() const noexcept override { return state_; }
  const Device& device() const noexcept override { return domain_->device(); }
  Result<void> modify(const QueuePairAttributes& change) override;
  QueuePairAttributes query() const override;
  QueuePairCapacities capacities() const noexcept override;
  PostStatus post_send(std::span<const SendRequest> requests) noexcept override;
  PostStatus post_recv(std::span<const RecvRequest> requests) noexcept override;

  // An operation of `request` has ended. From Cq, which drains.
  void complete(Request& request, const Outcome& outcome) noexcept;
  // Posts what libfabric refused before; whether there was anything.
  bool post_delayed() noexcept;
  // A completion queue of it was overrun: end() has to be called.
  void fail() noexcept;
  // A request failed, and end() was not called since.
  bool failed() const noexcept { return failed_; }
  // Closes the endpoint and flushes what is outstanding. Not while a Cq drains.
  void end() noexcept;
  // A Cq that knows it will call end(): it is not destroyed before release().
  void keep() noexcept { ++kept_; }
  void release() noexcept { --kept_; }

 private:
  Qp(std::shared_ptr<Domain> domain, const QueuePairOptions& options, Owned<fid_ep> endpoint,
     EndpointName name);

  Context& context() const noexcept { return domain_->context(); }
  Result<void> introduce(const QueuePairAttributes& said);
  const char* invalid_reason(const SendRequest& request, uint32_t& length) const noexcept;
  void fill(Request& into, const SendRequest& from, uint32_t length) noexcept;
  bool name_memory(Request& into, std::span<const Sge> sges, bool written) noexcept;
  bool issue_next() noexcept;
  bool issue_receive(Request& request) noexcept;
  bool must_wait(const Request& request) const noexcept;
  void finish_sends() noexcept;
  void give_up() noexcept;
  void finish(Request& request, const Outcome& outcome) noexcept;
  Request& send_at(uint64_t at) noexcept { return sends_[at % sends_.size()]; }

  const std::shared_ptr<Domain> domain_;
  const QueuePairOptions options_;
  const EndpointName name_;
  Cq& send_cq_;
  Cq& recv_cq_;
  mutable std::mutex mutex_;
  Owned<fid_ep> endpoint_;  // null in ERR
  std::atomic<QpState> state_{QpState::reset};
  std::atomic<bool> failed_{false};
  std::atomic<uint32_t> kept_{0};
  QueuePairAttributes attributes_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  Instant moved_;  // when a request last was posted to an idle endpoint, or had an outcome
  transport::RequestLimits limits_;
  std::vector<Request> sends_;     // a ring: done_ <= issued_ <= posted_, which count for ever
  std::vector<Request> receives_;  // those that are not outstanding are free
  std::vector<uint32_t> free_receives_;
  std::deque<uint32_t> waiting_receives_;  // that libfabric refused for now
  uint64_t done_ = 0, issued_ = 0, posted_ = 0, received_ = 0;
};

}  // namespace weft::libfabric
