// SPDX-License-Identifier: BSD-3-Clause
// Random layers of experts, run through dispatch and combine, against a plain program with the data
// of all ranks.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/random.hpp"
#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {

// One layer of experts, with what all ranks have.
struct Layer {
  uint32_t ranks = 1, experts_per_rank = 1, choices = 1;
  size_t width = 1, capacity = 0;
  DataType type = DataType::fp32;
  std::string_view algorithm;
  uint32_t racks = 1;  // of the combine: partial sums cross
  bool rounded = false;
  std::vector<size_t> counts;                 // tokens, by rank
  std::vector<std::vector<int32_t>> experts;  // by rank: choices of its tokens
  std::vector<std::vector<float>> weights;

  uint32_t all_experts() const { return ranks * experts_per_rank; }
  // Element i of a token; not exact in the type, so that sums must be rounded.
  double token(uint32_t rank, size_t t, size_t i) const {
    return static_cast<double>((rank * 7919 + t * 104'729 + i * 31) % 251) / 8 - 15;
  }
  std::string describe() const {
    return std::to_string(ranks) + " ranks, " + std::to_string(experts_per_rank) +
           " experts each, " + std::to_string(choices) + " choices, width " +
           std::to_string(width) + ", capacity " + std::to_string(capacity) + ", " +
           std::string(name(type)) + " '" + std::string(algorithm) + "'" +
           (rounded ? ", rounded" : "");
  }
};

inline Layer random_layer(base::Random& random, uint32_t ranks) {
  Layer layer;
  layer.ranks = ranks;
  layer.experts_per_rank = static_cast<uint32_t>(1 + random.below(4));
  layer.choices = static_cast<uint32_t>(1 + random.below(4));
  layer.width = 1 + random.below(random.below(2) == 0 ? 8 : 3000);
  layer.capacity = random.below(40);
  const DataType types[] = {DataType::fp32, DataType::bf16,     DataType::fp16,
                            DataType::fp64, DataType::fp8_e4m3, DataType::mxfp8_e5m2};
  layer.type = types[random.below(6)];
  const std::string_view algorithms[] = {"", "direct", "pairwise", "racks"};
  layer.algorithm = algorithms[random.below(4)];
  const bool some_empty = random.below(2) == 0;  // half of the experts are never chosen
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    layer.counts.push_back(random.below(3) == 0 ? 0 : random.below(30));
    layer.experts.emplace_back();
    layer.weights.emplace_back();
    for (size_t i = 0; i < layer.counts[rank] * layer.choices; ++i) {
      int32_t expert = static_cast<int32_t>(random.below(layer.all_experts() + 1)) - 1;
      if (some_empty && expert > 0) expert &= ~1;
      layer.experts[rank].push_back(expert);
      layer.weights[rank].push_back(static_cast<float>(random.below(1000)) / 997.0F);
    }
  }
  return layer;
}

// The plain program: the token in each row of an expert, and the combined results.
struct Reference {
  struct Row {
    uint32_t rank;
    size_t choice;
  };
  std::vector<std::vector<Row>> rows;        // by expert
  std::vector<std::vector<int64_t>> row_of;  // by rank: of each choice, or -1
  std::vector<size_t> dropped;

  explicit Reference(const Layer& layer)
      : rows(layer.all_experts()), row_of(layer.ranks), dropped(layer.ranks) {
    for (uint32_t rank = 0; rank < layer.ranks; ++rank)
      for (size_t i = 0; i < layer.experts[rank].size(); ++i) {
        const int32_t expert = layer.experts[rank][i];
        row_of[rank].push_back(-1);
        if (expert < 0) continue;
        std::vector<Row>& of_expert = rows[static_cast<size_t>(expert)];
        if (of_expert.size() == layer.capacity) {
          ++dropped[rank];
          continue;
        }
        row_of[rank][i] = static_cast<int64_t>(of_expert.size());
        of_expert.push_back({rank, i});
      }
  }
};

// An expert's function of an element.
inline double answer(uint32_t expert, double element) { return element * (expert + 1) - 0.25; }

template <class A>
A product(const Layer& layer, uint32_t rank, size_t c, size_t i) {
  std::byte element[kWidest] = {}, answered[kWidest] = {};
  encode(layer.type, element, layer.token(rank, c / layer.choices, i));
  const uint32_t expert = static_cast<uint32_t>(layer.experts[rank][c]);
  encode(layer.type, answered, answer(expert, decode(layer.type, element)));
  const volatile A rounded =  // before it is added
      static_cast<A>(layer.weights[rank][c]) * static_cast<A>(decode(layer.type, answered));
  return rounded;
}

// The outputs of the experts of another rack for a token, in order.
template <class A>
A partial(const Layer& layer, std::vector<size_t> choices, uint32_t rank, size_t i) {
  std::stable_sort(choices.begin(), choices.end(), [&](size_t a, size_t b) {
    return layer.experts[rank][a] < layer.experts[rank][b];
  });
  A sum = 0;
  for (const size_t c : choices) sum += product<A>(layer, rank, c, i);
  if (!layer.rounded) return sum;
  std::byte element[kWidest] = {};
  encode(layer.type, element, sum);
  return static_cast<A>(decode(layer.type, element));
}

template <class A>
A combined(const Layer& layer, const Reference& reference, uint32_t rank, size_t t, size_t i) {
  const uint32_t per_rack = layer.ranks / layer.racks;
  std::vector<std::vector<size_t>> by_rack(layer.racks);
  for (size_t c = t * layer.choices; c < (t + 1) * layer.choices; ++c)
    if (reference.row_of[rank][c] >= 0)
      by_rack[static_cast<uint32_t>(layer.experts[rank][c]) / layer.experts_per_rank / per_rack]
          .push_back(c);
  A sum = 0;
  for (const size_t c : by_rack[rank / per_rack]) sum += product<A>(layer, rank, c, i);
  for (uint32_t rack = 0; rack < layer.racks; ++rack)
    if (rack != rank / per_rack && !by_rack[rack].empty())
      sum += partial<A>(layer, by_rack[rack], rank, i);
  return sum;
}

// A rank's memory for a layer, its calls, and their expected results.
class LayerBuffers {
 public:
  LayerBuffers(const Layer& layer, uint32_t rank) : layer_(layer), reference_(layer), rank_(rank) {
    width_ = size_of(layer.type);
    row_ = layer.width * width_;
    tokens_.resize(layer.counts[rank_] * row_ + 1);
    back_.resize(tokens_.size());
    inbox_.resize(layer.experts_per_rank * layer.capacity * row_ + 1, std::byte{0xAA});
    for (size_t t = 0; t < layer.counts[rank_]; ++t)
      for (size_t i = 0; i < layer.width; ++i)
        encode(layer.type, &tokens_[t * row_ + i * width_], layer.token(rank_, t, i));
  }

  DispatchCall dispatch() {
    return {.tokens = tokens_.data(),
            .count = layer_.counts[rank_],
            .width = layer_.width,
            .type = layer_.type,
            .experts = layer_.experts[rank_],
            .choices = layer_.choices,
            .experts_per_rank = layer_.experts_per_rank,
            .capacity = layer_.capacity,
            .output = inbox_.data()};
  }
  CombineCall combine() {
    return {.input = inbox_.data(),
            .width = layer_.width,
            .type = layer_.type,
            .weights = layer_.weights[rank_],
            .output = back_.data(),
            .partials = layer_.rounded ? Partials::rounded : Partials::wide};
  }

  // Checks the experts' input, and computes their output. `tokens_of`: as of Routing.
  template <class TokensOf>
  std::string check_experts(size_t dropped, TokensOf tokens_of) {
    if (dropped != reference_.dropped[rank_]) return "another number is dropped";
    for (uint32_t e = 0; e < layer_.experts_per_rank; ++e) {
      if (tokens_of(e) != reference_.rows[rank_ * layer_.experts_per_rank + e].size())
        return "another number of tokens";
      if (const std::string wrong = check_expert(e); !wrong.empty()) return wrong;
    }
    return "";
  }

  std::string check_back() const {
    for (size_t t = 0; t < layer_.counts[rank_]; ++t)
      for (size_t i = 0; i < layer_.width; ++i) {
        const double value = layer_.type == DataType::fp64
                                 ? combined<double>(layer_, reference_, rank_, t, i)
                                 : combined<float>(layer_, reference_, rank_, t, i);
        std::byte wanted[kWidest];
        encode(layer_.type, wanted, value);
        if (std::memcmp(wanted, &back_[t * row_ + i * width_], width_) != 0)
          return "token " + std::to_string(t) + " came back wrong";
      }
    return "";
  }

 private:
  std::string check_expert(uint32_t e) {
    const uint32_t expert = rank_ * layer_.experts_per_rank + e;
    const std::vector<Reference::Row>& rows = reference_.rows[expert];
    for (size_t r = 0; r < layer_.capacity; ++r)
      for (size_t i = 0; i < layer_.width; ++i) {
        std::byte wanted[kWidest];
        std::memset(wanted, 0xAA, sizeof wanted);  // an unused row is left as it was
        if (r < rows.size())
          encode(layer_.type, wanted,
                 layer_.token(rows[r].rank, rows[r].choice / layer_.choices, i));
        std::byte* const got = &inbox_[((e * layer_.capacity + r) * layer_.width + i) * width_];
        if (std::memcmp(wanted, got, width_) != 0)
          return "expert " + std::to_string(expert) + " row " + std::to_string(r) + " is wrong";
        encode(layer_.type, got, answer(expert, decode(layer_.type, got)));
      }
    return "";
  }

  const Layer& layer_;
  const Reference reference_;
  uint32_t rank_;
  size_t width_ = 0, row_ = 0;
  std::vector<std::byte> tokens_, inbox_, back_;
};

class LayerRun {
 public:
  LayerRun(const Layer& layer, Communicator& group)
      : layer_(layer), group_(group), buffers_(layer, group.rank()) {}

  std::string run() {
    const CallOptions options{.algorithm = layer_.algorithm};
    Result<void> done = group_.dispatch(buffers_.dispatch(), routing_, options).wait();
    if (!done) return done.error().message;
    if (const std::string wrong = buffers_.check_experts(
            routing_.dropped(), [&](uint32_t e) { return routing_.tokens_of(e); });
        !wrong.empty())
      return wrong;
    done = group_.combine(buffers_.combine(), routing_, options).wait();
    return done ? buffers_.check_back() : done.error().message;
  }

 private:
  const Layer& layer_;
  Communicator& group_;
  LayerBuffers buffers_;
  Routing routing_;
};

inline std::string random_layers(Communicator& group, uint64_t seed, uint64_t number,
                                 uint32_t racks = 1) {
  base::Random random(seed);
  for (uint64_t i = 0; i < number; ++i) {
    Layer layer = random_layer(random, group.size());
    const bool over_racks = layer.algorithm.empty() || layer.algorithm == "racks";
    if (over_racks) layer.racks = racks;
    if (over_racks) layer.rounded = random.below(2) == 0;
    const std::string wrong = LayerRun(layer, group).run();
    if (!wrong.empty()) return layer.describe() + ": " + wrong;
  }
  return "";
}

}  // namespace weft::test
