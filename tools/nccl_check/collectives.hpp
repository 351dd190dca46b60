// SPDX-License-Identifier: BSD-3-Clause
// An all-reduce (sum of 64-bit words) in a ring over one connection each way.
#pragma once

#include "tools/nccl_check/rank.hpp"

namespace weft::nccl_check {

class Ring {
 public:
  // Of `words` words.
  Ring(Rank& rank, const Connections& connections, size_t words);
  ~Ring();

  uint64_t* words();
  void all_reduce();

 private:
  void step(size_t sent, size_t received, bool adds);

  Rank& rank_;
  Connections connections_;
  size_t words_;
  Buffer data_;
  void* data_in_;  // the same memory, for what is received
  Buffer staging_;
};

}  // namespace weft::nccl_check
