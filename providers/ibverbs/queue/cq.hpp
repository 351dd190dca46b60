// SPDX-License-Identifier: BSD-3-Clause
// Completion queues of a device, each with a channel of its own for the events of an armed one.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "providers/ibverbs/context/ibverbs_context.hpp"
#include "providers/ibverbs/queue/flushed.hpp"
#include "providers/ibverbs/queue/ledger.hpp"

namespace weft::ibverbs {

class Cq final : public verbs::Cq {
 public:
  static Result<std::shared_ptr<verbs::Cq>> create(const Device& device, const Context& context,
                                                   const CompletionQueueOptions& options);

  const Device& device() const noexcept override { return device_; }
  uint32_t number() const noexcept override { return cq_->handle; }
  size_t poll(std::span<Completion> out) noexcept override;
  void arm(Notify notify) noexcept override;
  int fd() const noexcept override { return flushed_.fd() >= 0 ? flushed_.fd() : channel_->fd; }
  void acknowledge() noexcept override;
  uint32_t capacity() const noexcept override { return static_cast<uint32_t>(cq_->cqe); }
  Result<bool> resize(uint32_t capacity) override;
  Result<void> moderate(const CqModeration& moderation) override;

  // A queue pair whose receives complete here begins each of them with a network header: datagrams.
  // Devices say so of other queue pairs too, where it means nothing.
  void note_datagrams(QpNum number);
  void forget_datagrams(QpNum number);

  // iWARP: of the queue pairs that complete here, each has a ledger. drop(): of one that the device
  // has no more, whose number may be another's by now; what it has left is thrown away.
  void track(QpNum number, std::shared_ptr<Ledger> ledger);
  void drop(QpNum number, const Ledger& ledger) noexcept;
  // A queue pair has ended: what the device has flushed, then what `rest` of the ledger gives.
  void flush_outstanding(Ledger& ledger, void (Ledger::*rest)(Flushed&));
  // What was posted in ERR, which the device does not give back.
  void add_flushed(const Completion& flushed) noexcept { flushed_.add(flushed); }

  ibv_cq* raw() const noexcept { return cq_.get(); }
  // The device's queue behind a handle; nullptr if it is of another open device.
  static ibv_cq* raw_of(const CompletionQueue& handle, const Context& context) noexcept {
    const auto* const cq = dynamic_cast<const Cq*>(handle.impl().get());
    return cq != nullptr && &cq->context() == &context ? cq->raw() : nullptr;
  }
  const Context& context() const noexcept { return context_; }

 private:
  bool has_header(QpNum number) noexcept;
  void take(const ibv_wc& done, Completion& c) noexcept;
  size_t poll_by_ledger(std::span<Completion> out) noexcept;
  std::shared_ptr<Ledger> claim(const ibv_wc& done) noexcept;
  void set_aside() noexcept;
  size_t take_until_failure(std::span<Completion> out, std::shared_ptr<Ledger>& failed) noexcept;
  Cq(const Device& device, const Context& context, Owned<ibv_comp_channel> channel,
     Owned<ibv_cq> cq);

  const Device device_;
  const Context& context_;  // the device's
  const base::ForkMark mark_;
  const Owned<ibv_comp_channel> channel_;
  const Owned<ibv_cq> cq_;
  std::atomic<size_t> datagram_pairs_{0};  // size of the set, for polling without the lock
  std::mutex mutex_;
  std::set<QpNum> datagrams_;
  // iWARP only:
  Flushed flushed_;  // comes before what the device has
  std::mutex turn_;  // the device's completions keep their order
  std::map<QpNum, std::shared_ptr<Ledger>> ledgers_;
  std::vector<std::shared_ptr<Ledger>> failed_aside_;  // whose failures set_aside() has met
};

}  // namespace weft::ibverbs
