// SPDX-License-Identifier: BSD-3-Clause
// A layer of experts to measure dispatch and combine with. Each rank has as many tokens, each of
// which goes to `choices` different experts, all experts alike likely. The choices follow from the
// seed, so every rank knows those of all, and what has to be in each row. Nothing is dropped.
#pragma once

#include "tools/coll/options.hpp"

namespace weft::bench {

class ExpertLayer {
 public:
  ExpertLayer(const CollOptions& options, Communicator& group)
      : options_(options), group_(group), ranks_(group.size()), rank_(group.rank()) {}

  // For so many tokens of each rank. A combine has its dispatch here. Errors: those of the calls.
  Result<void> prepare(uint64_t tokens);
  // The dispatch, or the combine.
  Operation start(const CallOptions& call);
  // Known data in what goes in, others in what comes out.
  void fill();
  // Elements of this rank's output.
  uint64_t count_wrong() const;

 private:
  struct Place {
    int32_t expert = 0;
    uint64_t row = 0;  // among those of the expert
  };

  void choose(uint64_t tokens);
  Operation dispatch(const CallOptions& call);
  uint64_t row_bytes() const { return options_.width * size_of(options_.type); }
  uint32_t experts() const { return ranks_ * options_.experts_per_rank; }
  // In the inbox of the expert's rank.
  uint64_t offset_of(const Place& place) const;
  uint64_t wrong_rows() const;
  uint64_t wrong_tokens() const;

  const CollOptions& options_;
  Communicator& group_;
  uint32_t ranks_, rank_;
  uint64_t tokens_ = 0, capacity_ = 0;
  std::vector<std::vector<Place>> places_;  // by rank: of the choices of its tokens
  std::vector<uint64_t> filled_;            // rows by expert
  std::vector<int32_t> chosen_;
  std::vector<float> weights_;
  std::vector<std::byte> sent_, inbox_, back_;
  Routing routing_;
};

}  // namespace weft::bench
