// SPDX-License-Identifier: BSD-3-Clause
// The edge of the public API: what is behind it may throw std::bad_alloc, what is in front of it
// never sees that. //= threat:A28
#pragma once

#include <new>
#include <type_traits>

#include "weft/result.hpp"

namespace weft::base {

// Short enough that a std::string of it needs no memory.
inline constexpr const char* kOutOfMemory = "out of memory";

// What `call` returns; where it ran out of memory: that error, or of what cannot tell an error
// (a list, an optional) an empty one. What `call` had begun it has undone (undo.hpp).
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
