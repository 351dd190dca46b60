// SPDX-License-Identifier: BSD-3-Clause
// The thread of a channel, and how its calls end.
#include "lib/adapters/torch/channel.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <stdexcept>

namespace weft::torch_adapter {
namespace {

constexpr Duration kLook = Duration::from_ms(50);  // how often a call looks whether all is to end

}  // namespace

Pending::Pending(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> outputs)
    : Work(rank, type, title, outputs),
      outputs_(std::move(outputs)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

bool Pending::wait(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto done = [this] { return completed_; };
  if (timeout == kNoTimeout)
    cv_.wait(lock, done);
  else if (!cv_.wait_for(lock, timeout, done))
    throw std::runtime_error("weft: rank " + std::to_string(rank_) + " has waited " +
                             std::to_string(timeout.count()) + " ms for " +
                             c10d::opTypeToString(opType_) + ", which goes on");
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void Pending::complete() {
  finish();
  future_->markCompleted(c10::IValue(outputs_));
}

void Pending::fail(const std::string& why) {
  const std::exception_ptr error = std::make_exception_ptr(std::runtime_error("weft: " + why));
  finish(error);
  future_->setError(error);
}

Channel::Channel(Open open) : open_(std::move(open)), thread_([this] { run(); }) {}

Channel::~Channel() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Channel::submit(PendingPtr pending, Call call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back({std::move(pending), std::move(call)});
  }
  changed_.notify_one();
}

void Channel::run() {
  const at::NoGradGuard no_grad;
  Result<Communicator> group = open_(closing_);
  while (const std::optional<Item> item = next()) {
    if (group)
      carry_out(*group, *item);
    else
      item->pending->fail(group.error().message);
  }
  for (const Item& item : queue_) item.pending->fail("the process group is destroyed");
}

std::optional<Channel::Item> Channel::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
  if (closing_) return std::nullopt;
  Item item = std::move(queue_.front());
  queue_.pop_front();
  return item;
}

void Channel::carry_out(Communicator& group, const Item& item) {
  try {
    Operation operation = item.call.issue(group);
    while (true) {
      const Result<bool> done = operation.wait_for(kLook);
      if (!done) return item.pending->fail(done.error().message);
      if (*done) break;
      if (closing_)
        group.revoke("rank " + std::to_string(group.rank()) + " has destroyed its process group");
    }
    if (item.call.finish) item.call.finish();
  } catch (const std::exception& why) {
    return item.pending->fail(why.what());
  }
  item.pending->complete();
}

}  // namespace weft::torch_adapter
