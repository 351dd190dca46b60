// SPDX-License-Identifier: BSD-3-Clause
// Algorithms: each is one file in algorithm/ that emits the program of one rank, and one row of the
// table in algorithm.cpp. To add one, write the file, its row, and run collective_verify_test,
// which proves every row over many shapes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/collective/plan/builder.hpp"
#include "lib/collective/plan/schedule.hpp"
#include "weft/result.hpp"

namespace weft::collective {

struct Traits {
  bool power_of_two = false;  // only for such numbers of ranks
  bool rank_order = false;    // adds in the order of ranks whatever the size
  bool passes_on = false;     // a chain or tree: ranks forward data piece by piece (pipelined)
  bool by_rack = false;       // needs Blocks::first_equal_row and the ranks of each rack
};

struct Algorithm {
  std::string_view name;
  Collective collective = Collective::all_reduce;
  void (*emit)(Builder& builder) = nullptr;
  Traits traits = {};
};

std::span<const Algorithm> algorithms() noexcept;
// Errors: not_found (the message lists the known names), not_supported (for this number of ranks).
Result<const Algorithm*> find_algorithm(std::string_view name, Collective collective,
                                        uint32_t ranks);

// The piece, in elements, that the models cut transfers into: 0 (whole transfers) unless the
// algorithm is pipelined.
uint64_t model_piece(const Algorithm& algorithm, uint64_t count) noexcept;

// True if the algorithm adds in the order of ranks, whatever the size: what Numerics::any may use.
bool adds_in_rank_order(const Algorithm& algorithm) noexcept;

Program program_of(const Algorithm& algorithm, const Shape& shape, uint32_t rank);
std::vector<Program> programs_of(const Algorithm& algorithm, const Shape& shape);

// Block b of n of a buffer: sizes differ by at most one element.
inline Range block(Range whole, uint32_t b, uint32_t n) {
  WEFT_DCHECK(n > 0 && b < n);
  const uint64_t from = whole.count * b / n;
  return whole.part(from, whole.count * (b + 1) / n - from);
}

inline Range input(uint64_t offset, uint64_t count) { return {Space::input, offset, count}; }
inline Range output(uint64_t offset, uint64_t count) { return {Space::output, offset, count}; }
inline Range work(uint64_t offset, uint64_t count) { return {Space::work, offset, count}; }

// The functions for all_gather, reduce_scatter and all_to_all serve the _v forms too.
// ring.cpp
void ring_all_reduce(Builder& b);
void ring_reduce_scatter(Builder& b);
void ring_all_gather(Builder& b);
void two_rings_all_reduce(Builder& b);
void two_rings_reduce_scatter(Builder& b);
void two_rings_all_gather(Builder& b);
void ring_broadcast(Builder& b);
void ring_reduce(Builder& b);
// halving_doubling.cpp
void doubling_all_reduce(Builder& b);
void halving_doubling_all_reduce(Builder& b);
void halving_reduce_scatter(Builder& b);
void doubling_all_gather(Builder& b);
// swing.cpp
void swing_all_reduce(Builder& b);
// bine.cpp
void bine_broadcast(Builder& b);
void bine_reduce(Builder& b);
void bine_all_gather(Builder& b);
void bine_reduce_scatter(Builder& b);
// pat.cpp
void pat_all_gather(Builder& b);
void pat_reduce_scatter(Builder& b);
// bucket.cpp
void bucket_all_reduce(Builder& b);
// hierarchical.cpp
void hierarchical_all_reduce(Builder& b);
// direct.cpp
void single_step_all_reduce(Builder& b);
void direct_all_reduce(Builder& b);
void direct_reduce_scatter(Builder& b);
void direct_all_gather(Builder& b);
void direct_broadcast(Builder& b);
void direct_reduce(Builder& b);
void direct_all_to_all(Builder& b);
// tree.cpp
void binomial_broadcast(Builder& b);
void binomial_reduce(Builder& b);
void double_tree_all_reduce(Builder& b);
// pairwise.cpp, bruck.cpp
void pairwise_all_to_all(Builder& b);
void bruck_all_to_all(Builder& b);
void bruck_all_gather(Builder& b);
// racks.cpp
void racks_dispatch(Builder& b);
// racks_combine.cpp
void racks_combine(Builder& b);

}  // namespace weft::collective
