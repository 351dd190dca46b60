// SPDX-License-Identifier: BSD-3-Clause
// Draws choices and counts rows.
#include "tools/coll/expert_choices.hpp"

#include <numeric>

#include "lib/base/random.hpp"

namespace weft::bench {

using collective::Bound;
using collective::Shape;
using collective::Topology;

Result<void> check_experts(const CollOptions& o, uint32_t ranks) {
  const uint64_t experts = uint64_t{ranks} * o.experts_per_rank;
  if (o.choices <= experts) return {};
  return Error{Code::invalid_argument, "a token cannot go to " + std::to_string(o.choices) +
                                           " of " + std::to_string(experts) +
                                           " experts: fewer --choices, or more --experts"};
}

std::vector<uint32_t> experts_of(const CollOptions& o, uint32_t ranks, uint32_t rank,
                                 uint64_t tokens) {
  base::Random random(o.seed * ranks + rank);
  std::vector<uint32_t> deck(size_t{ranks} * o.experts_per_rank), chosen;
  std::iota(deck.begin(), deck.end(), 0);
  for (uint64_t token = 0; token < tokens; ++token)
    for (uint32_t c = 0; c < o.choices; ++c) {
      std::swap(deck[c], deck[c + random.below(deck.size() - c)]);
      chosen.push_back(deck[c]);
    }
  return chosen;
}

Shape shape_of_experts(const CollOptions& o, const Topology& topology, uint64_t tokens) {
  const uint32_t ranks = topology.chips, experts = ranks * o.experts_per_rank;
  Shape shape{.collective = o.collective, .ranks = ranks, .dimensions = topology.dimensions};
  shape.blocks = {.parts = o.experts_per_rank,
                  .stride = ranks * tokens * o.width,
                  .width = o.width,
                  .racks = topology.racks};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<uint32_t> chosen = experts_of(o, ranks, rank, tokens);
    std::vector<std::vector<uint64_t>> tokens_of(experts);
    for (size_t i = 0; i < chosen.size(); ++i) tokens_of[chosen[i]].push_back(i / o.choices);
    std::vector<uint32_t>& same = shape.blocks.first_equal_row.emplace_back();
    std::vector<uint32_t> first;
    for (uint32_t expert = 0; expert < experts; ++expert) {
      if (expert % (experts / topology.racks) == 0) first.assign(tokens, UINT32_MAX);
      shape.blocks.counts.push_back(tokens_of[expert].size() * o.width);
      for (const uint64_t token : tokens_of[expert]) {
        if (first[token] == UINT32_MAX) first[token] = static_cast<uint32_t>(same.size());
        same.push_back(first[token]);
      }
    }
  }
  return shape;
}

Bound bound_of_experts(const CollOptions& o, const Topology& topology, uint64_t tokens) {
  std::vector<uint64_t> out(topology.cuts.size()), in(topology.cuts.size());
  for (uint32_t rank = 0; rank < topology.chips; ++rank) {
    const std::vector<uint32_t> chosen = experts_of(o, topology.chips, rank, tokens);
    for (size_t cut = 0; cut < topology.cuts.size(); ++cut) {
      const std::vector<bool>& inside = topology.cuts[cut].inside;
      for (size_t first = 0; first < chosen.size(); first += o.choices) {
        bool crosses = false;
        for (size_t i = first; i < first + o.choices; ++i)
          crosses |= inside[chosen[i] / o.experts_per_rank] != inside[rank];
        (inside[rank] ? out : in)[cut] += crosses;
      }
    }
  }
  Bound bound;
  if (o.collective == Collective::combine) std::swap(in, out);
  const double row = static_cast<double>(o.width * size_of(o.type));
  for (size_t cut = 0; cut < topology.cuts.size(); ++cut)
    for (const bool reversed : {false, true}) {
      collective::Cut side = topology.cuts[cut];
      if (reversed) side.inside.flip();
      const double bytes = row * static_cast<double>(reversed ? in[cut] : out[cut]);
      const double seconds = bytes / capacity(topology, side);
      if (seconds > bound.seconds) bound = {seconds, side.name};
    }
  return bound;
}

Shape rack_sums_shape(const Shape& combine) {
  Shape dispatch = combine;  // the dispatch that this combine reverses
  dispatch.collective = Collective::dispatch;
  const uint32_t ranks = dispatch.ranks, per_rack = ranks / dispatch.blocks.racks;
  const uint64_t width = dispatch.blocks.width;
  Shape shape{
      .collective = Collective::all_to_all_v, .ranks = ranks, .dimensions = combine.dimensions};
  shape.blocks.counts.assign(size_t{ranks} * ranks, 0);
  for (uint32_t to = 0; to < ranks; ++to)
    for (uint32_t rack = 0; rack < dispatch.blocks.racks; ++rack) {
      const uint32_t mirror = rack * per_rack + to % per_rack;
      if (mirror == to) continue;
      const uint32_t last = (rack + 1) * per_rack - 1;
      const uint64_t begin = send_block(dispatch, to, rack * per_rack).offset / width;
      const uint64_t end = send_block(dispatch, to, last, dispatch.blocks.parts - 1).end() / width;
      for (uint64_t row = begin; row < end; ++row)
        if (first_equal_row(dispatch, to, row) == row)
          shape.blocks.counts[size_t{mirror} * ranks + to] += width;
    }
  return shape;
}

}  // namespace weft::bench
