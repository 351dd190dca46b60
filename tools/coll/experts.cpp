// SPDX-License-Identifier: BSD-3-Clause
// Draws choices, starts calls, and checks the results.
#include "tools/coll/experts.hpp"

#include <algorithm>
#include <cstring>

#include "tools/coll/expert_choices.hpp"
#include "tools/coll/reference.hpp"

namespace weft::bench {
namespace {

// Small integers, so that sums are exact.
float weight_of(size_t choice) { return static_cast<float>(1 + choice % 2); }

}  // namespace

Result<void> ExpertLayer::prepare(uint64_t tokens) {
  if (const Result<void> valid = check_experts(options_, ranks_); !valid) return valid;
  draw_choices(tokens);
  sent_.resize(tokens * row_bytes());
  inbox_.resize(options_.experts_per_rank * capacity_ * row_bytes());
  back_.resize(sent_.size());
  return options_.collective == Collective::combine ? dispatch({}).wait() : Result<void>();
}

void ExpertLayer::draw_choices(uint64_t tokens) {
  tokens_ = tokens;
  filled_.assign(experts(), 0);
  rows_of_choices_.assign(ranks_, {});
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    for (const uint32_t expert : experts_of(options_, ranks_, rank, tokens))
      rows_of_choices_[rank].push_back({static_cast<int32_t>(expert), filled_[expert]++});
  capacity_ = *std::max_element(filled_.begin(), filled_.end());
  chosen_.clear();
  weights_.clear();
  for (const ExpertRow& place : rows_of_choices_[rank_]) {
    chosen_.push_back(place.expert);
    weights_.push_back(weight_of(weights_.size()));
  }
}

Operation ExpertLayer::dispatch(const CallOptions& call) {
  return group_.dispatch({.tokens = sent_.data(),
                          .count = tokens_,
                          .width = options_.width,
                          .type = options_.type,
                          .experts = chosen_,
                          .choices = options_.choices,
                          .experts_per_rank = options_.experts_per_rank,
                          .capacity = capacity_,
                          .output = inbox_.data()},
                         routing_, call);
}

Operation ExpertLayer::start(const CallOptions& call) {
  if (options_.collective == Collective::dispatch) return dispatch(call);
  return group_.combine({.input = inbox_.data(),
                         .width = options_.width,
                         .type = options_.type,
                         .weights = weights_,
                         .output = back_.data()},
                        routing_, call);
}

uint64_t ExpertLayer::offset_of(const ExpertRow& place) const {
  const uint64_t expert = static_cast<uint64_t>(place.expert) % options_.experts_per_rank;
  return (expert * capacity_ + place.row) * row_bytes();
}

// The input of combine does not depend on the dispatched tokens: each expert has its own pattern.
void ExpertLayer::fill() {
  std::fill(inbox_.begin(), inbox_.end(), std::byte{0xAA});
  std::fill(back_.begin(), back_.end(), std::byte{0xAA});
  const uint64_t width = options_.width, size = size_of(options_.type);
  for (uint64_t i = 0; i < tokens_ * width; ++i)
    encode(options_.type, element(options_, rank_, i), sent_.data() + i * size);
  if (options_.collective == Collective::dispatch) return;
  for (uint32_t e = 0; e < options_.experts_per_rank; ++e) {
    const uint32_t expert = rank_ * options_.experts_per_rank + e;
    for (uint64_t i = 0; i < filled_[expert] * width; ++i)
      encode(options_.type, element(options_, expert, i),
             inbox_.data() + offset_of({static_cast<int32_t>(expert), 0}) + i * size);
  }
}

uint64_t ExpertLayer::count_wrong() const {
  return options_.collective == Collective::dispatch ? wrong_rows() : wrong_tokens();
}

uint64_t ExpertLayer::wrong_rows() const {
  const uint64_t width = options_.width, size = size_of(options_.type);
  uint64_t wrong = routing_.dropped();
  for (uint32_t e = 0; e < options_.experts_per_rank; ++e)
    wrong += routing_.tokens_of(e) != filled_[rank_ * options_.experts_per_rank + e];
  for (uint32_t from = 0; from < ranks_; ++from)
    for (size_t c = 0; c < rows_of_choices_[from].size(); ++c) {
      const ExpertRow& place = rows_of_choices_[from][c];
      if (static_cast<uint32_t>(place.expert) / options_.experts_per_rank != rank_) continue;
      const std::byte* const row = inbox_.data() + offset_of(place);
      for (uint64_t i = 0; i < width; ++i)
        wrong += !is_value(options_.type, element(options_, from, c / options_.choices * width + i),
                           row + i * size);
    }
  return wrong;
}

uint64_t ExpertLayer::wrong_tokens() const {
  const uint64_t width = options_.width, size = size_of(options_.type);
  uint64_t wrong = 0;
  for (uint64_t token = 0; token < tokens_; ++token)
    for (uint64_t i = 0; i < width; ++i) {
      double sum = 0;
      for (size_t c = token * options_.choices; c < (token + 1) * options_.choices; ++c) {
        const ExpertRow& place = rows_of_choices_[rank_][c];
        sum += weight_of(c) *
               element(options_, static_cast<uint32_t>(place.expert), place.row * width + i);
      }
      wrong += !is_value(options_.type, sum, back_.data() + (token * width + i) * size);
    }
  return wrong;
}

}  // namespace weft::bench
