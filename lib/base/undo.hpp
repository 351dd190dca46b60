// SPDX-License-Identifier: BSD-3-Clause
// A scope guard that undoes a step unless forget() is called: for functions of several steps, each
// of which may run out of memory.
#pragma once

#include <utility>

namespace weft::base {

// Undo undo([&] { list.pop_back(); });  ...  undo.forget();
template <class Step>
class Undo {
 public:
  explicit Undo(Step step) : step_(std::move(step)) {}
  ~Undo() {
    if (armed_) step_();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  // All steps have succeeded.
  void forget() noexcept { armed_ = false; }

 private:
  Step step_;
  bool armed_ = true;
};

}  // namespace weft::base
