// SPDX-License-Identifier: BSD-3-Clause
// The thread of a channel, and how its calls end.
#include "lib/adapters/torch/channel.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>

namespace weft::torch_adapter {
namespace {

constexpr Duration kLook = Duration::from_ms(50);  // interval of checks for shutdown
constexpr char kDestroyed[] = "the process group is destroyed";

thread_local Loop* running = nullptr;  // the one that this thread belongs to

// Threads whose channels were closed in them. Never destroyed, as they may outlive what is static.
struct Left {
  std::mutex mutex;
  std::vector<std::thread> threads;
};
Left& left() {
  static Left* const kept = new Left;
  return *kept;
}

}  // namespace

class Loop {
 public:
  explicit Loop(Channel::Open open) : open_(std::move(open)) {}

  void run();
  void close();
  void submit(PendingPtr pending, Call call);
  void carry_out_until(const Pending& pending);

 private:
  struct Item {
    PendingPtr pending;
    Call call;
  };

  bool queue(const PendingPtr& pending, Call call);
  bool take_turn();
  void fail_rest();
  std::optional<Item> next();
  void carry_out(const Item& item);

  Channel::Open open_;
  Result<Communicator>* group_ = nullptr;  // while it runs
  std::atomic<bool> closing_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
};

Pending::Pending(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> outputs)
    : Work(rank, type, title, outputs),
      outputs_(std::move(outputs)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

bool Pending::wait(std::chrono::milliseconds timeout) {
  if (loop != nullptr && loop == running) {  // in a callback: the call has limits of its own
    running->carry_out_until(*this);
    future_->waitAndThrow();
    return true;
  }
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
  future_->markCompleted(c10::IValue(outputs_));
  finish();
}

void Pending::fail(const std::string& why) {
  const std::exception_ptr error = std::make_exception_ptr(std::runtime_error("weft: " + why));
  future_->setError(error);
  finish(error);
}

void Loop::run() {
  const at::NoGradGuard no_grad;
  running = this;
  Result<Communicator> group = open_(closing_);
  group_ = &group;
  while (take_turn()) continue;
  fail_rest();
}

// No call is queued afterwards.
void Loop::fail_rest() {
  while (!queue_.empty()) {
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    item.pending->fail(kDestroyed);
  }
}

void Loop::close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
}

void Loop::submit(PendingPtr pending, Call call) {
  pending->loop = this;
  if (!queue(pending, std::move(call))) return pending->fail(kDestroyed);
  changed_.notify_one();
  if (running == this) carry_out_until(*pending);
}

bool Loop::queue(const PendingPtr& pending, Call call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closing_) queue_.push_back({pending, std::move(call)});
  return !closing_;
}

// In a callback. What the end of the channel leaves in the queue is failed here, too.
void Loop::carry_out_until(const Pending& pending) {
  while (!pending.is_over())
    if (!take_turn()) fail_rest();
}

bool Loop::take_turn() {
  const std::optional<Item> item = next();
  if (item) carry_out(*item);
  return item.has_value();
}

std::optional<Loop::Item> Loop::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
  if (closing_) return std::nullopt;
  Item item = std::move(queue_.front());
  queue_.pop_front();
  return item;
}

void Loop::carry_out(const Item& item) {
  if (!*group_) return item.pending->fail(group_->error().message);
  Communicator& group = **group_;
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

Channel::Channel(Open open)
    : loop_(std::make_shared<Loop>(std::move(open))), thread_([loop = loop_] { loop->run(); }) {}

void Channel::close() {
  if (!thread_.joinable()) return;
  loop_->close();
  if (running != loop_.get()) return thread_.join();
  const std::lock_guard<std::mutex> lock(left().mutex);
  left().threads.push_back(std::move(thread_));
}

void Channel::submit(PendingPtr pending, Call call) {
  loop_->submit(std::move(pending), std::move(call));
}

void Channel::join_left() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard<std::mutex> lock(left().mutex);
    threads.swap(left().threads);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weft::torch_adapter
