// SPDX-License-Identifier: BSD-3-Clause
// A first-in first-out line of objects that carry their own link, so that standing in it takes no
// memory. The link says whether its object stands in a line; one link is for one line at a time.
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

  // To the end; one that stands in line already stays where it is.
  void push(T& item) noexcept {
    LineLink<T>& link = item.*kLink;
    if (link.listed) return;
    link = {nullptr, true};
    (tail_ != nullptr ? (tail_->*kLink).next : head_) = &item;
    tail_ = &item;
  }

  // The first, which leaves. The line is not empty.
  T& pop() noexcept {
    T& item = *head_;
    head_ = (item.*kLink).next;
    if (head_ == nullptr) tail_ = nullptr;
    item.*kLink = {};
    return item;
  }

  // Takes one out of the middle, by a walk from the front. False: it does not stand here.
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
