// SPDX-License-Identifier: BSD-3-Clause
// The completion queue of weft behind a fid_cq: takes completions and hands each to its endpoint.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "lib/adapters/fi/common/progress.hpp"
#include "weft/cq.hpp"

namespace weft::fi {

struct Ep;
struct Cq;

// Any thread.
class MsgQueue final : public Progress {
 public:
  // Errors: those of Device::completion_queue().
  static Result<std::shared_ptr<MsgQueue>> create(const Device& device);
  // That of `cq`, created at the first call.
  static Result<std::shared_ptr<MsgQueue>> of(Cq& cq, const Device& device);

  const CompletionQueue& queue() const noexcept { return queue_; }
  // Makes room for the completions of an endpoint. Error: no_memory.
  Result<void> reserve(size_t entries);
  // Between these two, completions of the endpoint's queue pair go to it; at the end those that are
  // there already.
  void attach(Ep& ep);
  void detach(Ep& ep, size_t entries) noexcept;

  void progress() noexcept override;
  void arm() noexcept override;
  int fd() const noexcept override { return queue_.fd(); }

 private:
  explicit MsgQueue(CompletionQueue queue) : queue_(std::move(queue)) {}
  size_t take_batch() noexcept;

  const CompletionQueue queue_;
  std::mutex lock_;
  std::unordered_map<uint32_t, Ep*> endpoints_;  // by queue pair number
  size_t needed_ = 0;                            // entries of all endpoints
};

}  // namespace weft::fi
