// SPDX-License-Identifier: BSD-3-Clause
// Completion queues of an EFA for SRD: extended ones, which report the sender of a receive
// though this side has never sent there. Polled by ibv_start_poll() and its like.
#pragma once

#include <map>
#include <mutex>

#include "providers/ibverbs/context/ibverbs_context.hpp"
#include "providers/ibverbs/efa/efa_srd.hpp"
#include "providers/ibverbs/queue/flushed.hpp"

namespace weft::ibverbs {

class SrdQp;

class SrdCq final : public verbs::Cq {
 public:
  static Result<std::shared_ptr<verbs::Cq>> create(const Device& device, const Context& context,
                                                   const CompletionQueueOptions& options);
  ~SrdCq() override;

  const Device& device() const noexcept override { return device_; }
  uint32_t number() const noexcept override { return cq_->handle; }
  size_t poll(std::span<Completion> out) noexcept override;
  // Any completion wakes: a device has no word for solicited ones.
  void arm(Notify notify) noexcept override;
  // Where the device has no events: a descriptor that is always readable, so that waiting is
  // polling.
  int fd() const noexcept override {
    return channel_ != nullptr ? flushed_.fd() : always_readable_;
  }
  void acknowledge() noexcept override;
  uint32_t capacity() const noexcept override { return static_cast<uint32_t>(cq_->cqe); }
  Result<bool> resize(uint32_t capacity) override;
  Result<void> moderate(const CqModeration& moderation) override;

  // Queue pairs whose requests complete here.
  void enter(SrdQp& qp);
  void leave(const SrdQp& qp) noexcept;
  // What the device never saw: posted in ERR.
  void add_flushed(const Completion& flushed) noexcept { flushed_.add(flushed); }

  ibv_cq* raw() const noexcept { return ibv_cq_ex_to_cq(extended_); }
  const Context& context() const noexcept { return context_; }
  static SrdCq* of(const CompletionQueue& handle, const Context& context) noexcept;

 private:
  SrdCq(const Device& device, const Context& context, Owned<ibv_comp_channel> channel,
        ibv_cq_ex* extended, bool reports_gid);
  // Reads the device's current completion; false: of a destroyed queue pair, or unsignaled.
  bool read_current(Completion& c) noexcept;
  void read_receive(const SrdQp& qp, Completion& c) noexcept;
  size_t poll_device(std::span<Completion> out) noexcept;

  const Device device_;
  const Context& context_;
  const Owned<ibv_comp_channel> channel_;  // null: the device has no events
  int always_readable_ = -1;
  ibv_cq_ex* const extended_;
  const Owned<ibv_cq> cq_;  // the same
  efadv_cq* const efa_;     // null: it does not tell addresses
  std::mutex mutex_;
  std::map<uint32_t, SrdQp*> qps_;
  Flushed flushed_;
};

}  // namespace weft::ibverbs
