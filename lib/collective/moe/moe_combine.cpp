// SPDX-License-Identifier: BSD-3-Clause
// Combine: rows return to the ranks of their tokens and are summed token by token.
#include "lib/collective/moe/moe_combine.hpp"

#include <algorithm>
#include <cstring>

namespace weft::collective {
namespace {

Error refuse(const std::string& text) { return invalid(Collective::combine, text); }

Result<void> check(const Team& team, const CombineCall& call, const RoutingPtr& routing,
                   const CallOptions& options) {
  if (!routing || routing->team != team.serial())
    return refuse("the routing is not of a dispatch of this communicator");
  if (call.weights.size() != routing->experts.size())
    return refuse("there are " + std::to_string(call.weights.size()) + " weights for " +
                  std::to_string(routing->experts.size()) + " choices");
  if (options.traffic_class.value_or(routing->traffic_class) != routing->traffic_class)
    return refuse("its dispatch was of traffic class " + std::to_string(routing->traffic_class));
  const size_t most = kMostBytes / size_of(call.type) / experts_of(team, *routing);
  if (call.width == 0 || call.width > most / std::max<size_t>(1, routing->capacity) ||
      call.width > most / std::max<size_t>(1, routing->experts.size()))
    return refuse("width " + std::to_string(call.width) + " is 0 or too large");
  if (routing->capacity > 0 && call.input == nullptr) return refuse("the input is null");
  if (!routing->experts.empty() && call.output == nullptr) return refuse("the output is null");
  if (arithmetic_of(call.type, ReduceOp::sum).add_weighted == nullptr)
    return refuse(std::string(name(call.type)) + " is no floating-point type");
  return {};
}

// Distributes the weights of masked experts over the other choices of the token.
void reweigh(const RoutingState& routing, std::span<float> weights) {
  for (size_t token = 0; token < weights.size(); token += routing.choices) {
    float all = 0, left = 0;
    for (size_t i = token; i < token + routing.choices; ++i) {
      const bool masked = routing.experts[i] == kMasked;
      if (masked || routing.experts[i] >= 0) all += weights[i];
      if (routing.experts[i] >= 0) left += weights[i];
    }
    for (size_t i = token; i < token + routing.choices && left != 0 && left != all; ++i)
      weights[i] *= all / left;
  }
}

// By token: the index of its partial sum from this rack, or kNone.
constexpr uint32_t kNone = UINT32_MAX;
std::vector<uint32_t> partial_of(const Racks& racks, uint32_t rack, size_t tokens) {
  const RoutingState& routing = racks.routing;
  std::vector<uint64_t> token_of(rows_packed(racks.team, routing));
  for (size_t i = 0; i < routing.row_of.size(); ++i)
    if (routing.row_of[i] != kNoRow) token_of[routing.row_of[i]] = i / routing.choices;
  std::vector<uint32_t> partials(tokens, kNone);
  uint32_t next = 0;
  for (const uint64_t row : racks.distinct(racks.team.rank(), rack))
    partials[token_of[row]] = next++;
  return partials;
}

}  // namespace

bool dispatch_succeeded(Team& team, Task& task, const RoutingState& routing) {
  if (routing.refused)
    task.error = refuse("its dispatch has failed: see the error of the dispatch");
  else if (!routing.ready)  // other ranks may have completed it
    (void)team.cancel(task, "its dispatch was canceled");
  return routing.ready;
}

void accumulate_tokens(const Team& team, const Combining& combining, const std::byte* rows) {
  const RoutingState& routing = *combining.routing;
  const Arithmetic arithmetic = combining.arithmetic();
  const uint64_t width = combining.call.width;
  const size_t row_bytes = width * arithmetic.element;
  const size_t tokens = routing.row_of.size() / routing.choices;
  const Racks racks{team, routing};
  const bool crossed = combining.over_racks;
  const Arithmetic of_partials = arithmetic_of(combining.crossing_type(), ReduceOp::sum);
  const size_t partial_bytes = combining.crossing_width() * of_partials.element;
  std::vector<std::vector<uint32_t>> partials;
  std::vector<const std::byte*> sums;  // of each rack
  const std::byte* next = combining.in.data();
  for (uint32_t rack = 0; rack < routing.racks && crossed; ++rack) {
    const bool own = rack == racks.own();
    partials.push_back(own ? std::vector<uint32_t>(tokens, kNone)
                           : partial_of(racks, rack, tokens));
    sums.push_back(next);
    if (!own) next += racks.distinct(team.rank(), rack).size() * partial_bytes;
  }
  const uint64_t first = crossed ? racks.before(team.rank(), racks.own()) : 0;
  const uint64_t end = crossed ? racks.before(team.rank(), racks.own() + 1) : kNoRow;
  std::vector<std::byte> sum(width * arithmetic.accumulator);
  for (size_t token = 0; token < tokens; ++token) {
    std::memset(sum.data(), 0, sum.size());
    for (size_t i = token * routing.choices; i < (token + 1) * routing.choices; ++i)
      if (const uint64_t row = routing.row_of[i]; row >= first && row < end)
        arithmetic.add_weighted(sum.data(), rows + row * row_bytes, combining.weights[i], width);
    for (uint32_t rack = 0; rack < partials.size(); ++rack)
      if (const uint32_t partial = partials[rack][token]; partial != kNone)
        of_partials.add_weighted(sum.data(), sums[rack] + partial * partial_bytes, 1.0F,
                                 combining.crossing_width());
    arithmetic.finish(static_cast<std::byte*>(combining.call.output) + token * row_bytes,
                      sum.data(), width, 1);
  }
}

Result<TaskPtr> issue_combine(Team& team, const CombineCall& call, const RoutingPtr& routing,
                              const CallOptions& options) {
  if (Result<void> checked = check(team, call, routing, options); !checked) return checked.error();
  CallOptions of_dispatch = options;
  of_dispatch.traffic_class = routing->traffic_class;
  const Arguments arguments{Collective::combine, call.input, nullptr, 0, call.type};
  Result<TaskPtr> rows = new_task(team, arguments, of_dispatch, team.next_sequence());
  if (!rows) return rows;
  const CombiningPtr combining =
      std::make_shared<Combining>(Combining{.call = call, .routing = routing});
  combining->weights.assign(call.weights.begin(), call.weights.end());
  if (call.masked == Masked::reweigh) reweigh(*routing, combining->weights);
  const bool over_racks = (*rows)->algorithm->traits.by_rack && routing->racks > 1;
  combining->over_racks = over_racks;
  (*rows)->call.count = call.width;
  (*rows)->prepare = [=, &team](Task& own) -> Result<void> {
    if (!dispatch_succeeded(team, own, *routing)) return {};
    Result<RegisteredPtr> packed =
        packed_space(team, own.call, rows_packed(team, *routing) * call.width * size_of(call.type));
    if (!packed) return packed.error();
    Arguments with_blocks = arguments;
    with_blocks.blocks = blocks_of(*routing, call.width);
    if (!over_racks) with_blocks.blocks.racks = 1;
    if (*packed) {
      own.registered.push_back(*packed);
      with_blocks.output = (*packed)->memory;
    }
    return plan_task(team, own, with_blocks);
  };
  if (over_racks) return issue_over_racks(team, combining, *rows, of_dispatch);
  (*rows)->complete = [=, &team](Task& own) { accumulate_tokens(team, *combining, own.output); };
  team.issue(*rows);
  return rows;
}

}  // namespace weft::collective
