// SPDX-License-Identifier: BSD-3-Clause
// The programs of one call on all ranks, as far as they wait for each other. A model moves their
// messages: it asks which puts may start, and says when one has left and when it is there. Local
// steps take no time.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lib/collective/plan/plan.hpp"

namespace weft::collective {

class ProgramRun {
 public:
  struct Put {
    uint32_t from = 0, to = 0, step = 0;
    double bytes = 0;
    uint8_t along = kAnyWay;
    // It follows another one to the same rank, which had come so far, in latency, when it was said
    // to have left.
    double behind_s = 0;
  };

  // `element` and `accumulator` in bytes.
  ProgramRun(const Shape& shape, const std::vector<Program>& programs, double element,
             double accumulator);

  // Those that may start since the last call: of one rank to another one at a time, in the order of
  // the program.
  std::vector<Put> take_startable() { return std::exchange(startable_, {}); }
  // Its source may be overwritten, and the next put to the same rank may start.
  void left(const Put& put);
  // The next message of `from` is at `to`.
  void arrived(uint32_t from, uint32_t to);
  void arrived(const Put& put) { arrived(put.from, put.to); }
  bool done() const { return steps_left_ == 0; }

 private:
  // What a rank puts to another.
  struct Pair {
    uint32_t to = 0;
    const std::vector<uint32_t>* puts = nullptr;
    const std::vector<uint32_t>* receives = nullptr;
    size_t next_put = 0, next_receive = 0;
    uint32_t arrived = 0;  // messages not yet taken
    bool busy = false;
  };
  Pair& pair(uint32_t from, uint32_t to);
  double bytes_of(uint32_t rank, uint32_t step) const;
  void start_put(uint32_t from, uint32_t to, double behind_s = 0);
  void take_arrived(uint32_t from, uint32_t to);
  void finish(uint32_t rank, uint32_t step);

  Shape shape_;
  double element_, accumulator_;
  std::vector<std::shared_ptr<const Plan>> plans_;
  std::vector<std::vector<uint32_t>> waits_;
  std::vector<std::vector<Pair>> pairs_;  // by giver, in the order of takers: of many few talk
  std::vector<Put> startable_;
  size_t steps_left_ = 0;
};

}  // namespace weft::collective
