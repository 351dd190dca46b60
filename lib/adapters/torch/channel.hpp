// SPDX-License-Identifier: BSD-3-Clause
// Channels: a communicator with the thread that it belongs to. Calls are carried out one after the
// other in the order in which they come; whoever made one holds a Pending.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "weft/collective.hpp"

namespace weft::torch_adapter {

// A call under way, as PyTorch sees it. Exceptions are std::runtime_error with the text of the
// communicator's error, which names rank and operation.
class Pending : public c10d::Work {
 public:
  // `outputs` is what the future is completed with.
  Pending(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> outputs);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  void complete();
  void fail(const std::string& why);

 private:
  std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};
using PendingPtr = c10::intrusive_ptr<Pending>;

struct Call {
  std::function<Operation(Communicator&)> issue;
  std::function<void()> finish;  // once it is done; may throw
};

class Channel {
 public:
  // Connects; gives up when the argument is true. It is called in the channel's thread.
  using Open = std::function<Result<Communicator>(const std::atomic<bool>& closing)>;

  explicit Channel(Open open);
  // Ends what is under way, on all ranks, and leaves.
  ~Channel();

  void submit(PendingPtr pending, Call call);

 private:
  struct Item {
    PendingPtr pending;
    Call call;
  };

  void run();
  std::optional<Item> next();
  void carry_out(Communicator& group, const Item& item);

  Open open_;
  std::atomic<bool> closing_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::thread thread_;
};

}  // namespace weft::torch_adapter
