// SPDX-License-Identifier: BSD-3-Clause
// The boundary of the public API: std::bad_alloc of the implementation becomes an error, and errors
// are logged.
//= threat:A28
#pragma once

#include <new>
#include <type_traits>

#include "lib/base/log/log.hpp"
#include "weft/result.hpp"

namespace weft::base {

// Short enough for a std::string without allocation.
inline constexpr const char* kOutOfMemory = "out of memory";

// Counts the calls of the API that this thread is in: one that the library makes itself logs
// nothing.
class CallDepth {
 public:
  CallDepth() noexcept { ++depth_; }
  ~CallDepth() { --depth_; }
  CallDepth(const CallDepth&) = delete;
  CallDepth& operator=(const CallDepth&) = delete;
  static bool is_outermost() noexcept { return depth_ == 1; }

 private:
  static inline thread_local int depth_ = 0;
};

// Returns call(). If it throws std::bad_alloc: an Error no_memory, or an empty list or optional if
// the result type has no error. `call` undoes its partial work itself (undo.hpp).
template <class Call>
auto guarded(Call call) -> decltype(call()) {
  using Outcome = decltype(call());
  try {
    if constexpr (std::is_constructible_v<Outcome, Error>) {
      const CallDepth depth;
      Outcome outcome = call();
      if (!outcome && CallDepth::is_outermost()) log_refusal(outcome.error());
      return outcome;
    } else {
      return call();
    }
  } catch (const std::bad_alloc&) {
    if constexpr (std::is_constructible_v<Outcome, Error>)
      return Error{Code::no_memory, kOutOfMemory};
    else
      return Outcome();
  }
}

}  // namespace weft::base
