// SPDX-License-Identifier: BSD-3-Clause
// A first-in first-out queue in one block of memory, which doubles when it is full and never
// shrinks: for long-lived short queues. T is trivially copyable.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "lib/base/check.hpp"

namespace weft::base {

template <class T>
class RingQueue {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  bool empty() const noexcept { return size_ == 0; }
  size_t size() const noexcept { return size_; }
  void clear() noexcept { head_ = size_ = 0; }
  void reserve(size_t count) {
    if (count > places_.size()) grow(std::bit_ceil(count));
  }
  void push(const T& value) {
    if (size_ == places_.size()) grow(std::max<size_t>(8, 2 * size_));
    places_[(head_ + size_++) & (places_.size() - 1)] = value;
  }
  // The queue is not empty.
  const T& front() const noexcept {
    WEFT_DCHECK(!empty());
    return places_[head_ & (places_.size() - 1)];
  }
  T pop() noexcept {
    const T value = front();
    ++head_;
    --size_;
    return value;
  }

 private:
  void grow(size_t count) {
    WEFT_DCHECK(std::has_single_bit(count) && count > size_);
    std::vector<T> larger(count);
    for (size_t i = 0; i < size_; ++i) larger[i] = places_[(head_ + i) & (places_.size() - 1)];
    places_.swap(larger);
    head_ = 0;
  }

  std::vector<T> places_;  // a power of two, or none
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace weft::base
