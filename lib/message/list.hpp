// SPDX-License-Identifier: BSD-3-Clause
// Intrusive lists, hash tables of such lists, and pools: what the queues of messages are made of.
// An object may be in several lists at once, one for each Link<N> that it derives from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "lib/base/check.hpp"

namespace weft::message {

template <int N>
struct Link {
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  bool is_linked() const noexcept { return next != this; }
  void unlink() noexcept {
    next->previous = previous;
    previous->next = next;
    next = previous = this;
  }
  Link* next = this;
  Link* previous = this;
};

// A first-in, first-out list; T derives from Link<N>. It owns nothing.
template <class T, int N>
class List {
 public:
  bool empty() const noexcept { return !head_.is_linked(); }
  T* front() const noexcept { return empty() ? nullptr : static_cast<T*>(head_.next); }
  // The element behind `item`, or null.
  T* after(const T* item) const noexcept {
    Link<N>* const next = static_cast<const Link<N>*>(item)->next;
    return next == &head_ ? nullptr : static_cast<T*>(next);
  }
  void push_back(T* item) noexcept {
    Link<N>* const link = item;
    WEFT_DCHECK(!link->is_linked());
    link->previous = head_.previous;
    link->next = &head_;
    head_.previous->next = link;
    head_.previous = link;
  }
  void push_front(T* item) noexcept {
    Link<N>* const link = item;
    WEFT_DCHECK(!link->is_linked());
    link->next = head_.next;
    link->previous = &head_;
    head_.next->previous = link;
    head_.next = link;
  }
  static void remove(T* item) noexcept {
    WEFT_DCHECK(static_cast<Link<N>*>(item)->is_linked());
    static_cast<Link<N>*>(item)->unlink();
  }

 private:
  Link<N> head_;
};

// Lists by hash value, so that elements with equal keys stay in order of insertion.
template <class T, int N>
class HashLists {
 public:
  HashLists() : buckets_(new List<T, N>[kFirst]) {}
  // The list that holds all elements of this hash value, and some others.
  List<T, N>& at(uint64_t hash) const noexcept { return buckets_[hash & (count_ - 1)]; }
  size_t size() const noexcept { return size_; }
  // Appends. `hash_of(T&)` serves to move elements to a larger table.
  template <class Hash>
  void insert(T* item, Hash hash_of) noexcept {
    if (++size_ > count_) grow(hash_of);
    at(hash_of(*item)).push_back(item);
  }
  void remove(T* item) noexcept {
    WEFT_DCHECK(size_ > 0);
    List<T, N>::remove(item);
    --size_;
  }

 private:
  static constexpr size_t kFirst = 256, kMost = size_t{1} << 20;
  template <class Hash>
  void grow(Hash hash_of) noexcept {
    if (count_ >= kMost) return;
    const size_t wanted = count_ * 4;
    std::unique_ptr<List<T, N>[]> larger(new (std::nothrow) List<T, N>[wanted]);
    if (!larger) return;  // slower, not wrong
    for (size_t i = 0; i < count_; ++i)
      while (T* item = buckets_[i].front()) {
        List<T, N>::remove(item);
        larger[hash_of(*item) & (wanted - 1)].push_back(item);
      }
    buckets_ = std::move(larger);
    count_ = wanted;
  }
  std::unique_ptr<List<T, N>[]> buckets_;
  size_t count_ = kFirst;
  size_t size_ = 0;
};

// Objects that are used again and never given back to the system.
template <class T>
class Pool {
 public:
  // Null: no memory.
  T* take() noexcept {
    if (free_.empty() && !add_chunk()) return nullptr;
    WEFT_DCHECK(!free_.empty());
    T* const item = free_.back();
    free_.pop_back();
    return item;
  }
  // The object keeps its state: take() does not clear it.
  void give(T* item) noexcept {
    WEFT_DCHECK(free_.size() < chunks_.size() * kChunk);
    free_.push_back(item);
  }

 private:
  static constexpr size_t kChunk = 64;
  bool add_chunk() noexcept try {
    chunks_.reserve(chunks_.size() + 1);
    free_.reserve((chunks_.size() + 1) * kChunk);
    chunks_.emplace_back(new T[kChunk]);
    for (size_t i = 0; i < kChunk; ++i) free_.push_back(&chunks_.back()[i]);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<T*> free_;  // has room for all
};

}  // namespace weft::message
