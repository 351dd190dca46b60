// SPDX-License-Identifier: BSD-3-Clause
// The outstanding requests of an iWARP queue pair. siw flushes its requests when a connection ends,
// but never completes those that are posted after that, before the program is notified; so the
// ledger flushes them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "providers/ibverbs/queue/flushed.hpp"

namespace weft::verbs {
class Qp;
}

namespace weft::ibverbs {

// A request that is outstanding. `silent`: it completes only if it fails.
struct Outstanding {
  uint64_t id = 0;
  WorkType type = WorkType::send;
  bool silent = false;
};

// A queue of these from whose middle some may be taken. It allocates only when it holds more than
// ever before.
class OutstandingList {
 public:
  explicit OutstandingList(size_t size);
  void push(const Outstanding& request);
  // Takes out the oldest for which `of(request)`, and the silent ones before it; not READs before
  // something else, which may still fail. False: there is none.
  template <class Of>
  bool take(Of of) {
    uint64_t at = begin_;
    while (at != end_ && (slot(at).gone || !of(slot(at).request))) ++at;
    if (at == end_) return false;
    slot(at).gone = true;
    const bool read = slot(at).request.type == WorkType::read;
    for (uint64_t i = begin_; i != at; ++i) {
      const Outstanding& older = slot(i).request;
      if (older.silent && (read || older.type != WorkType::read)) slot(i).gone = true;
    }
    drop_front();
    return true;
  }
  size_t size() const noexcept { return end_ - begin_; }
  const Outstanding& front() { return slot(begin_).request; }
  void pop_front();
  template <class Hand>
  void empty_into(Hand hand) {
    for (; begin_ != end_; pop_front()) hand(front());
  }

 private:
  struct Slot {
    Outstanding request;
    bool gone = false;
  };
  Slot& slot(uint64_t at) { return slots_[at & (slots_.size() - 1)]; }
  void drop_front();

  std::vector<Slot> slots_;       // a power of two of them
  uint64_t begin_ = 0, end_ = 0;  // the front is outstanding
};

// Any thread, under `mutex`, which posting holds: a completion is looked up after its request is
// written down.
class Ledger {
 public:
  // `slots`: of the send queue. What is further back has left it. `receives`: of the receive queue.
  // `shared`: receives come from a shared receive queue, which has no ledger.
  Ledger(QpNum number, size_t slots, size_t receives, bool shared)
      : number_(number), slots_(slots), shared_(shared), sends_(2 * slots), receives_(receives) {}

  std::mutex mutex;
  std::weak_ptr<verbs::Qp> owner;

  // All are flushed: requests posted from now on are flushed at once. Under the mutex.
  bool over = false;
  void note_send(const Outstanding& request);
  void note_receive(uint64_t id) { receives_.push({id, WorkType::recv, false}); }

  // A completion of the device. False: not of an outstanding request, so it is discarded.
  bool takes(uint64_t id, bool receive, bool success);
  void flush_sends(Flushed& into) { flush(sends_, into); }
  void flush_receives(Flushed& into) { flush(receives_, into); }

 private:
  void flush(OutstandingList& rest, Flushed& into);

  const QpNum number_;
  const size_t slots_;
  const bool shared_;
  OutstandingList sends_, receives_;
};

}  // namespace weft::ibverbs
