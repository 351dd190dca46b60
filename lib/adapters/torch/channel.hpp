// SPDX-License-Identifier: BSD-3-Clause
// Channels: a communicator and its thread. Calls run one at a time in FIFO order; the caller holds
// a Pending. Callbacks of futures run in the channel's thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "weft/collective.hpp"

namespace weft::torch_adapter {

class Loop;  // what the thread of a channel does

// A call in progress, as PyTorch sees it. Exceptions are std::runtime_error with the text of the
// communicator's error, which names rank and operation.
class Pending : public c10d::Work {
 public:
  // `outputs` is what the future is completed with.
  Pending(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> outputs);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // The callbacks of the future run before wait() returns elsewhere.
  void complete();
  void fail(const std::string& why);
  bool is_over() const { return future_->completed(); }

  const Loop* loop = nullptr;  // that carries it out, once it is submitted

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
  ~Channel() { close(); }
  // Ends what is in progress, on all ranks, and leaves. Joins the thread; in a callback, which is
  // that thread, it is left to join_left().
  void close();
  // In a callback of this channel the call runs, after earlier ones, before submit() returns: the
  // channel's thread is the one that waits for it.
  void submit(PendingPtr pending, Call call);

  // Waits for the threads of channels that a callback has closed.
  static void join_left();

 private:
  std::shared_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace weft::torch_adapter
