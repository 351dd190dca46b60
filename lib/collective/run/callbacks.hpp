// SPDX-License-Identifier: BSD-3-Clause
// Callbacks of tasks that have ended, in the order of their end. A callback may issue calls, wait
// and add callbacks; those that become due meanwhile run after it, not within it.
#pragma once

#include <deque>

#include "lib/collective/run/task.hpp"

namespace weft::collective {

class Callbacks {
 public:
  using Callback = std::function<void(const Result<void>&)>;

  // Run at once if the task is done and no other callback runs.
  void add(const TaskPtr& task, Callback callback) {
    WEFT_DCHECK(task != nullptr);
    task->callbacks.push_back(std::move(callback));
    ++registered_;
    if (!task->done) return;
    ended_.push_back(task);
    run();
  }
  void on_done(const TaskPtr& task) {
    WEFT_DCHECK(task->done);
    if (!task->callbacks.empty()) ended_.push_back(task);
  }
  void run() noexcept {
    if (running_ || ended_.empty()) return;
    running_ = true;
    while (!ended_.empty()) {
      const TaskPtr task = ended_.front();
      ended_.pop_front();
      WEFT_DCHECK(task->done);
      const Result<void> result = task->error ? Result<void>(*task->error) : Result<void>();
      const auto callbacks = std::move(task->callbacks);
      task->callbacks.clear();
      WEFT_DCHECK(registered_ >= callbacks.size());
      registered_ -= callbacks.size();
      for (const auto& callback : callbacks) callback(result);
    }
    running_ = false;
  }
  bool any() const { return registered_ > 0; }  // not run yet, of any task
  bool due() const { return !running_ && !ended_.empty(); }

 private:
  std::deque<TaskPtr> ended_;
  size_t registered_ = 0;
  bool running_ = false;
};

}  // namespace weft::collective
