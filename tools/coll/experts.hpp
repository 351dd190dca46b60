// SPDX-License-Identifier: BSD-3-Clause
// An MoE layer for measuring dispatch and combine. Every rank has the same number of tokens, each
// with `choices` distinct experts, uniformly distributed. The choices follow from the seed, so
// every rank can compute the expected content of each row. No token is dropped.
#pragma once

#include "tools/coll/options.hpp"

namespace weft::bench {

class ExpertLayer {
 public:
  ExpertLayer(const CollOptions& options, Communicator& group)
      : options_(options), group_(group), ranks_(group.size()), rank_(group.rank()) {}

  // Prepares a call with `tokens` per rank; for combine it also runs the dispatch. Errors: those of
  // the calls.
  Result<void> prepare(uint64_t tokens);
  // Starts the dispatch or the combine.
  Operation start(const CallOptions& call);
  // Fills the input with the test pattern and the output with other bytes.
  void fill();
  // The number of wrong elements in this rank's output.
  uint64_t count_wrong() const;

 private:
  struct ExpertRow {
    int32_t expert = 0;
    uint64_t row = 0;  // index among the rows of the expert
  };

  void draw_choices(uint64_t tokens);
  Operation dispatch(const CallOptions& call);
  uint64_t row_bytes() const { return options_.width * size_of(options_.type); }
  uint32_t experts() const { return ranks_ * options_.experts_per_rank; }
  // Byte offset in `inbox_` of the expert's rank.
  uint64_t offset_of(const ExpertRow& place) const;
  uint64_t wrong_rows() const;
  uint64_t wrong_tokens() const;

  const CollOptions& options_;
  Communicator& group_;
  uint32_t ranks_, rank_;
  uint64_t tokens_ = 0, capacity_ = 0;
  std::vector<std::vector<ExpertRow>> rows_of_choices_;  // per rank, per choice of its tokens
  std::vector<uint64_t> filled_;                         // number of rows per expert
  std::vector<int32_t> chosen_;
  std::vector<float> weights_;
  std::vector<std::byte> sent_, inbox_, back_;
  Routing routing_;
};

}  // namespace weft::bench
