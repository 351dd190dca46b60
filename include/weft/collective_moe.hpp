// SPDX-License-Identifier: BSD-3-Clause
// Mixture of experts: dispatch() brings tokens to the ranks of the experts that a router has chosen
// for them, combine() brings what the experts made of them back and adds it up.
//
//   weft::Routing routing;
//   group.dispatch({.tokens = x, .count = 128, .width = 7168, .type = weft::DataType::bf16,
//                   .experts = chosen, .choices = 8, .experts_per_rank = 4, .capacity = 512,
//                   .output = inbox}, routing).wait();
//   for (uint32_t e = 0; e < 4; ++e) run_expert(e, inbox + e * 512 * 7168, routing.tokens_of(e));
//   group.combine({.input = inbox, .width = 7168, .type = weft::DataType::bf16,
//                  .weights = weights, .output = y}, routing).wait();
//
// Expert e is on rank e / experts_per_rank. Each expert has `capacity` rows of the output; they are
// filled in the order of ranks, and of tokens within a rank, so the result is the same in every
// run. Choices that find their expert full are dropped: they add nothing in combine().
//
// When a rank has died, inference goes on with the experts that are left: shrink() makes a group of
// the survivors, and a dispatch with `origins` keeps the numbers of experts. Those of the dead are
// masked: no token goes there, and combine() leaves them out or gives their weight to the others.
//
//   auto done = group.dispatch(call, routing).wait();
//   if (!done) {  // PEER_FAILED
//     group = *group.shrink(store);
//     call.origins = group.origins();
//     done = group.dispatch(call, routing).wait();
//   }
//
// In a group whose network (CommunicatorOptions::topology) has racks, the algorithm of a dispatch
// is "racks": a token that goes to several experts of another rack crosses to it once, and the rank
// of the same place there passes it on. So is that of the combine of such a dispatch, unless
// Numerics::any promises the order of choices: that rank adds up what the experts of its rack made
// of a token, and one row crosses back. It is two operations more in the sequence.
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

// Where the tokens of one dispatch went. Made by dispatch(), valid when that is done; copies name
// the same. Any number of combine() may use it.
class Routing {
 public:
  // Rows that an expert of this rank has got, of expert 0 .. experts_per_rank - 1.
  size_t tokens_of(uint32_t expert) const noexcept;
  // Choices of this rank's tokens that found their expert full.
  size_t dropped() const noexcept;
  // Choices of this rank's tokens whose expert no rank of the group has: see DispatchCall::origins.
  size_t masked() const noexcept;

 private:
  friend class Communicator;
  std::shared_ptr<collective::RoutingState> state_;
};

// Width, type, experts_per_rank, capacity and origins are the same on all ranks; count and choices
// need not be.
struct DispatchCall {
  const void* tokens = nullptr;  // `count` rows of `width` elements
  size_t count = 0;
  size_t width = 0;
  DataType type = DataType::bf16;
  std::span<const int32_t> experts;  // count * choices: those of token 0 first; negative: none.
                                     // Read during the call.
  uint32_t choices = 1;              // experts of a token: the k of top-k
  uint32_t experts_per_rank = 1;
  size_t capacity = 0;     // rows of one expert
  void* output = nullptr;  // experts_per_rank * capacity rows
  // Rank r of this group has the experts from origins[r] * experts_per_rank, as origins() of a
  // group that shrink() made says; an expert that no rank has is masked. Empty: from r *
  // experts_per_rank. Read during the call.
  std::span<const uint32_t> origins;
};

// What becomes of the weights of masked experts.
enum class Masked : uint8_t {
  drop,     // they add nothing, and the token gets less
  reweigh,  // the weights of the token's other experts are scaled to the sum of all, in fp32; those
            // of experts that were full count as theirs. Zero if all its experts are masked.
};

// What crosses between racks for a token, in a combine over racks.
enum class Partials : uint8_t {
  wide,     // a sum in fp32 (fp64 in fp64): all is rounded once, but a row of 16 bits crosses in 32
  rounded,  // a sum that is rounded to the type: half or a quarter of the bytes, and an error more
};

// The type may be another than that of the dispatch: experts may answer in bf16 to tokens in fp8.
struct CombineCall {
  const void* input = nullptr;  // experts_per_rank * capacity rows, as dispatch() filled them
  size_t width = 0;
  DataType type = DataType::bf16;  // a floating-point type
  std::span<const float> weights;  // count * choices, as `experts` of the dispatch
  // `count` rows: token t is the sum of weight * row over its choices, in their order, in fp32
  // (fp64 in fp64), rounded once; zero if it has no expert. Over racks: those of its own rack in
  // their order, then the sum of each other rack, which is added up in the order of experts.
  void* output = nullptr;
  Masked masked = Masked::drop;
  Partials partials = Partials::wide;  // the same on all ranks
};

}  // namespace weft
