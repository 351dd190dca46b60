// SPDX-License-Identifier: BSD-3-Clause
// A few objects on the stack that are written before they are read: posting and polling convert
// lists through them, and the default values of all would cost more than the conversion.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace weft::drop_in {

inline constexpr size_t kBatch = 16;

template <class T>
union Uninitialised {
  T value;
  Uninitialised() noexcept {}
  static_assert(std::is_trivially_destructible_v<T>);
};
template <class T>
using Batch = std::array<Uninitialised<T>, kBatch>;

}  // namespace weft::drop_in
