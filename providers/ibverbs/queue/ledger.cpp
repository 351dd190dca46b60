// SPDX-License-Identifier: BSD-3-Clause
// See ledger.hpp.
#include "providers/ibverbs/queue/ledger.hpp"

#include <algorithm>
#include <bit>

namespace weft::ibverbs {

OutstandingList::OutstandingList(size_t size) : slots_(std::bit_ceil(std::max<size_t>(size, 2))) {}

void OutstandingList::push(const Outstanding& request) {
  if (size() == slots_.size()) {
    std::vector<Slot> larger(2 * slots_.size());
    for (uint64_t at = begin_; at != end_; ++at) larger[at & (larger.size() - 1)] = slot(at);
    slots_ = std::move(larger);
  }
  slot(end_++) = {request, false};
}

void OutstandingList::drop_front() {
  while (begin_ != end_ && slot(begin_).gone) ++begin_;
}

void OutstandingList::pop_front() {
  ++begin_;
  drop_front();
}

void Ledger::note_send(const Outstanding& request) {
  sends_.push(request);
  while (sends_.size() > slots_ && sends_.front().silent) sends_.pop_front();
}

// siw completes a READ later than the WRITEs behind it, so one may come before older ones.
bool Ledger::takes(uint64_t id, bool receive, bool success) {
  const std::lock_guard lock(mutex);
  if (receive && shared_) return true;
  // A failed request may be unsignaled; a completion of success is of a signaled one.
  return (receive ? receives_ : sends_).take([&](const Outstanding& r) {
    return r.id == id && !(success && r.silent);
  });
}

void Ledger::flush(OutstandingList& rest, Flushed& into) {
  const std::lock_guard lock(mutex);
  rest.empty_into([&](const Outstanding& r) {
    into.add({.id = r.id, .qp = number_, .status = Status::flushed, .type = r.type});
  });
}

}  // namespace weft::ibverbs
