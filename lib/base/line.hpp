// SPDX-License-Identifier: BSD-3-Clause
// An intrusive first-in first-out queue: objects carry the link, so that queueing does not
// allocate. The link tells whether its object is queued; one link is for one queue at a time.
//
//   struct Peer { base::LineLink<Peer> active; };
//   base::Line<Peer, &Peer::active> line;
#pragma once

namespace weft::base {

template <class T>
struct LineLink {
  T* next = nullptr;
  bool listed = false;
};

template <class T, LineLink<T> T::*kLink>
class Line {
 public:
  bool empty() const noexcept { return head_ == nullptr; }
  T* front() const noexcept { return head_; }
  T* back() const noexcept { return tail_; }

  // Appends an object; one that is queued already keeps its place.
  void push(T& item) noexcept {
    LineLink<T>& link = item.*kLink;
    if (link.listed) return;
    link = {nullptr, true};
    (tail_ != nullptr ? (tail_->*kLink).next : head_) = &item;
    tail_ = &item;
  }

  // Removes and returns the first object. The queue is not empty.
  T& pop() noexcept {
    T& item = *head_;
    head_ = (item.*kLink).next;
    if (head_ == nullptr) tail_ = nullptr;
    item.*kLink = {};
    return item;
  }

  // Removes an object from the middle, in linear time. False: it is not queued here.
  bool remove(T& item) noexcept {
    if (!(item.*kLink).listed) return false;
    T* before = nullptr;
    for (T* at = head_; at != nullptr; before = at, at = (at->*kLink).next) {
      if (at != &item) continue;
      (before != nullptr ? (before->*kLink).next : head_) = (item.*kLink).next;
      if (tail_ == &item) tail_ = before;
      item.*kLink = {};
      return true;
    }
    return false;
  }

  void clear() noexcept {
    while (!empty()) pop();
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace weft::base
