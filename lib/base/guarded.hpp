// SPDX-License-Identifier: BSD-3-Clause
// The boundary of the public API: std::bad_alloc of the implementation becomes an error.
//= threat:A28
#pragma once

#include <new>
#include <type_traits>

#include "weft/result.hpp"

namespace weft::base {

// Short enough for a std::string without allocation.
inline constexpr const char* kOutOfMemory = "out of memory";

// Returns call(). If it throws std::bad_alloc: an Error no_memory, or an empty list or optional if
// the result type has no error. `call` undoes its partial work itself (undo.hpp).
template <class Call>
auto guarded(Call call) -> decltype(call()) {
  using Outcome = decltype(call());
  try {
    return call();
  } catch (const std::bad_alloc&) {
    if constexpr (std::is_constructible_v<Outcome, Error>)
      return Error{Code::no_memory, kOutOfMemory};
    else
      return Outcome();
  }
}

}  // namespace weft::base
