// SPDX-License-Identifier: BSD-3-Clause
// The heap is 4-ary: half as deep as a binary one, and the four children share two cache lines.
#include "lib/sim/frames/event_queue.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim {

void EventQueue::schedule(Instant at, EventHandler& handler, uint64_t argument) {
  const Event event{std::max(at, now_).ps, sequence_++, &handler, argument};
  size_t hole = heap_.size();
  heap_.push_back(event);
  while (hole != 0) {
    const size_t parent = (hole - 1) / 4;
    if (!event.before(heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

EventQueue::Event EventQueue::pop() {
  const Event top = heap_.front();
  const Event last = heap_.back();
  heap_.pop_back();
  const size_t size = heap_.size();
  if (size == 0) return top;
  size_t hole = 0;
  while (true) {
    const size_t first = 4 * hole + 1;
    if (first >= size) break;
    size_t least = first;
    for (size_t child = first + 1; child < std::min(first + 4, size); ++child)
      if (heap_[child].before(heap_[least])) least = child;
    if (!heap_[least].before(last)) break;
    heap_[hole] = heap_[least];
    hole = least;
  }
  heap_[hole] = last;
  return top;
}

bool EventQueue::step() {
  if (heap_.empty()) return false;
  const Event event = pop();
  WEFT_DCHECK(event.at >= now_.ps);
  now_ = Instant{event.at};
  ++executed_;
  event.handler->on_event(now_, event.argument);
  return true;
}

void EventQueue::run_until(Instant until) {
  while (next() <= until && step()) {
  }
  now_ = std::max(now_, until);
}

}  // namespace weft::sim
