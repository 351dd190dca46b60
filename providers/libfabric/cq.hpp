// SPDX-License-Identifier: BSD-3-Clause
// A completion queue: a queue of libfabric, and behind it the completions in the form and order of
// weft. Locks in this order: Context::Control or try_drain(), that of draining, that of a queue
// pair, that of the ready completions.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "lib/base/fork.hpp"
#include "providers/libfabric/context.hpp"

namespace weft::libfabric {

class Qp;

class Cq final : public verbs::Cq {
 public:
  static Result<std::shared_ptr<verbs::Cq>> create(const Device& device, Context& context,
                                                   const CompletionQueueOptions& options);
  ~Cq() override;

  const Device& device() const noexcept override { return device_; }
  uint32_t number() const noexcept override { return number_; }
  size_t poll(std::span<Completion> out) noexcept override;
  void arm(Notify notify) noexcept override;
  int fd() const noexcept override { return wake_fd_; }
  void acknowledge() noexcept override;
  uint32_t capacity() const noexcept override { return capacity_; }
  Result<bool> resize(uint32_t capacity) override;
  Result<void> moderate(const CqModeration& moderation) override;

  // Takes what libfabric has completed and posts what it refused before; whether there was
  // anything. Returns at once if another thread is doing so.
  bool drain() noexcept;
  // Closes an endpoint and takes what is left of it from both queues: afterwards they have no entry
  // of its requests.
  static void close(Owned<fid_ep> endpoint, Cq& send, Cq& receive) noexcept;
  // Appends a completion, in the order of weft. Beyond the capacity it is lost: an overrun.
  void add(const Completion& completion) noexcept;

  // Queue pairs with requests that libfabric refused for now.
  void enter(Qp& qp);
  void leave(Qp& qp) noexcept;

  fid_cq& raw() const noexcept { return *raw_; }
  // The queue behind a handle; null if it is of another open device.
  static Cq* of(const CompletionQueue& handle, const Context& context) noexcept;

 private:
  Cq(const Device& device, Context& context, Owned<fid_cq> raw, int wake_fd, uint32_t capacity);
  bool drain_locked(std::vector<Qp*>& failed) noexcept;
  bool take_error() noexcept;

  const Device device_;
  Context& context_;  // the device's
  const uint32_t number_;
  Owned<fid_cq> raw_;
  const int wake_fd_;
  std::atomic<uint32_t> capacity_;
  std::mutex drain_mutex_;
  std::vector<Qp*> qps_;  // with drain_mutex_
  std::mutex ready_mutex_;
  std::deque<Completion> ready_;
  std::atomic<bool> any_{false};      // ready_ is not empty
  std::atomic<bool> overrun_{false};  // completions were lost: queue pairs go to ERR
  bool armed_ = false;                // with ready_mutex_
};

}  // namespace weft::libfabric
