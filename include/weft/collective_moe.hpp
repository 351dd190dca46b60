// SPDX-License-Identifier: BSD-3-Clause
// Mixture of experts (MoE): dispatch() sends tokens to the ranks of the experts that a router has
// chosen for them, combine() returns the experts' outputs and sums them by weight.
//
//   weft::Routing routing;
//   group.dispatch({.tokens = x, .count = 128, .width = 7168, .type = weft::DataType::bf16,
//                   .experts = chosen, .choices = 8, .experts_per_rank = 4, .capacity = 512,
//                   .output = inbox}, routing).wait();
//   for (uint32_t e = 0; e < 4; ++e) run_expert(e, inbox + e * 512 * 7168, routing.tokens_of(e));
//   group.combine({.input = inbox, .width = 7168, .type = weft::DataType::bf16,
//                  .weights = weights, .output = y}, routing).wait();
//
// Expert e is on rank e / experts_per_rank. Each expert has `capacity` rows of the output, filled
// in the order of ranks and of tokens within a rank, so results are the same in every run. Choices
// beyond an expert's capacity are dropped: they add nothing in combine().
//
// When a rank has failed, inference can continue with the remaining experts: shrink() creates a
// group of the survivors, and a dispatch with `origins` keeps the numbers of experts. Experts of
// failed ranks are masked: no token is sent to them, and combine() omits them or distributes their
// weight to the token's other experts.
//
//   auto done = group.dispatch(call, routing).wait();
//   if (!done) {  // PEER_FAILED
//     group = *group.shrink(store);
//     call.origins = group.origins();
//     done = group.dispatch(call, routing).wait();
//   }
//
// In a group whose network (CommunicatorOptions::topology) has racks, dispatch uses the algorithm
// "racks": a token for several experts of another rack is sent there once, to the rank with the
// same position, which forwards it. So does the combine of such a dispatch, unless Numerics::any
// fixes the order of summation: that rank sums the outputs of its rack's experts, and one row is
// sent back. It takes two more operations of the sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "weft/collective_types.hpp"

namespace weft {

namespace collective {
struct RoutingState;
}

// The routing of one dispatch. Filled by dispatch(), valid when that is done; copies name the same
// routing. Any number of combine() may use it.
class Routing {
 public:
  // Rows that expert 0 .. experts_per_rank - 1 of this rank received.
  size_t tokens_of(uint32_t expert) const noexcept;
  // Choices of this rank's tokens that exceeded the capacity of their expert.
  size_t dropped() const noexcept;
  // Choices of this rank's tokens for experts that no rank of the group has: see
  // DispatchCall::origins.
  size_t masked() const noexcept;

 private:
  friend class Communicator;
  std::shared_ptr<collective::RoutingState> state_;
};

// The arguments of dispatch(). Width, type, experts_per_rank, capacity and origins are the same on
// all ranks; count and choices may differ.
struct DispatchCall {
  const void* tokens = nullptr;  // `count` rows of `width` elements
  size_t count = 0;
  size_t width = 0;
  DataType type = DataType::bf16;
  // count * choices expert numbers, those of token 0 first; negative: none. Read during the call.
  std::span<const int32_t> experts{};
  uint32_t choices = 1;  // experts of a token: the k of top-k
  uint32_t experts_per_rank = 1;
  size_t capacity = 0;     // rows of one expert
  void* output = nullptr;  // experts_per_rank * capacity rows
  // Rank r has the experts from origins[r] * experts_per_rank on, as Communicator::origins() of a
  // group made by shrink(); experts that no rank has are masked. Empty: from r * experts_per_rank.
  // Read during the call.
  std::span<const uint32_t> origins{};
};

// Treatment of the weights of masked experts.
enum class Masked : uint8_t {
  drop,     // they add nothing
  reweigh,  // the weights of the token's other experts, dropped choices included, are scaled in
            // fp32 to the sum of all weights. Zero if all experts of the token are masked.
};

// The type in which partial sums are sent between racks, in a combine over racks.
enum class Partials : uint8_t {
  wide,     // fp32 (fp64 for fp64): rounded once, but 16-bit rows take 32 bits per element
  rounded,  // the element type: half or a quarter of the bytes, with an additional rounding
};

// The arguments of combine(). The type may differ from that of the dispatch: bf16 outputs for fp8
// tokens.
struct CombineCall {
  const void* input = nullptr;  // experts_per_rank * capacity rows, as dispatch() filled them
  size_t width = 0;
  DataType type = DataType::bf16;    // a floating-point type
  std::span<const float> weights{};  // count * choices, as `experts` of the dispatch
  // `count` rows: token t is the sum of weight * row over its choices, in their order, in fp32
  // (fp64 for fp64), rounded once; zero if it has no expert. Over racks: first the choices in its
  // own rack in their order, then the partial sum of each other rack, summed in the order of
  // experts.
  void* output = nullptr;
  Masked masked = Masked::drop;
  Partials partials = Partials::wide;  // the same on all ranks
};

}  // namespace weft
