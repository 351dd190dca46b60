// SPDX-License-Identifier: BSD-3-Clause
// The table of algorithms.
#include "lib/collective/plan/algorithm.hpp"

#include <bit>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr Algorithm kAlgorithms[] = {
    {"ring", Collective::all_reduce, ring_all_reduce},
    {"two_rings", Collective::all_reduce, two_rings_all_reduce},
    {"doubling", Collective::all_reduce, doubling_all_reduce},
    {"halving_doubling", Collective::all_reduce, halving_doubling_all_reduce},
    {"single_step", Collective::all_reduce, single_step_all_reduce, {.rank_order = true}},
    {"direct", Collective::all_reduce, direct_all_reduce, {.rank_order = true}},
    {"double_tree", Collective::all_reduce, double_tree_all_reduce, {.passes_on = true}},
    {"bucket", Collective::all_reduce, bucket_all_reduce},
    {"hierarchical", Collective::all_reduce, hierarchical_all_reduce},
    {"swing", Collective::all_reduce, swing_all_reduce, {.power_of_two = true}},
    {"ring", Collective::reduce_scatter, ring_reduce_scatter},
    {"two_rings", Collective::reduce_scatter, two_rings_reduce_scatter},
    {"halving", Collective::reduce_scatter, halving_reduce_scatter, {.power_of_two = true}},
    {"direct", Collective::reduce_scatter, direct_reduce_scatter, {.rank_order = true}},
    {"pat", Collective::reduce_scatter, pat_reduce_scatter},
    {"bine", Collective::reduce_scatter, bine_reduce_scatter, {.power_of_two = true}},
    {"ring", Collective::all_gather, ring_all_gather},
    {"two_rings", Collective::all_gather, two_rings_all_gather},
    {"doubling", Collective::all_gather, doubling_all_gather, {.power_of_two = true}},
    {"bruck", Collective::all_gather, bruck_all_gather},
    {"direct", Collective::all_gather, direct_all_gather},
    {"pat", Collective::all_gather, pat_all_gather},
    {"bine", Collective::all_gather, bine_all_gather, {.power_of_two = true}},
    {"ring", Collective::broadcast, ring_broadcast, {.passes_on = true}},
    {"binomial", Collective::broadcast, binomial_broadcast, {.passes_on = true}},
    {"direct", Collective::broadcast, direct_broadcast},
    {"bine", Collective::broadcast, bine_broadcast, {.power_of_two = true, .passes_on = true}},
    {"ring", Collective::reduce, ring_reduce, {.passes_on = true}},
    {"binomial", Collective::reduce, binomial_reduce, {.passes_on = true}},
    {"direct", Collective::reduce, direct_reduce, {.rank_order = true}},
    {"bine", Collective::reduce, bine_reduce, {.power_of_two = true, .passes_on = true}},
    {"pairwise", Collective::all_to_all, pairwise_all_to_all},
    {"bruck", Collective::all_to_all, bruck_all_to_all},
    {"direct", Collective::all_to_all, direct_all_to_all},
    {"ring", Collective::all_gather_v, ring_all_gather},
    {"two_rings", Collective::all_gather_v, two_rings_all_gather},
    {"doubling", Collective::all_gather_v, doubling_all_gather, {.power_of_two = true}},
    {"bruck", Collective::all_gather_v, bruck_all_gather},
    {"direct", Collective::all_gather_v, direct_all_gather},
    {"pat", Collective::all_gather_v, pat_all_gather},
    {"bine", Collective::all_gather_v, bine_all_gather, {.power_of_two = true}},
    {"ring", Collective::reduce_scatter_v, ring_reduce_scatter},
    {"two_rings", Collective::reduce_scatter_v, two_rings_reduce_scatter},
    {"halving", Collective::reduce_scatter_v, halving_reduce_scatter, {.power_of_two = true}},
    {"direct", Collective::reduce_scatter_v, direct_reduce_scatter, {.rank_order = true}},
    {"pat", Collective::reduce_scatter_v, pat_reduce_scatter},
    {"bine", Collective::reduce_scatter_v, bine_reduce_scatter, {.power_of_two = true}},
    {"pairwise", Collective::all_to_all_v, pairwise_all_to_all},
    {"direct", Collective::all_to_all_v, direct_all_to_all},
    {"pairwise", Collective::dispatch, pairwise_all_to_all},
    {"direct", Collective::dispatch, direct_all_to_all},
    {"racks", Collective::dispatch, racks_dispatch, {.by_rack = true}},
    {"pairwise", Collective::combine, pairwise_all_to_all},
    {"direct", Collective::combine, direct_all_to_all},
    {"racks", Collective::combine, racks_combine, {.by_rack = true}},
};

std::string names_for(Collective collective) {
  std::string names;
  for (const Algorithm& algorithm : kAlgorithms)
    if (algorithm.collective == collective)
      names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  return names;
}

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return kAlgorithms; }

Result<const Algorithm*> find_algorithm(std::string_view wanted, Collective collective,
                                        uint32_t ranks) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective != collective || algorithm.name != wanted) continue;
    if (!algorithm.traits.power_of_two || std::has_single_bit(ranks)) return &algorithm;
    return Error{Code::not_supported, std::string(wanted) + " " + std::string(name(collective)) +
                                          " needs a power of two of ranks, there are " +
                                          std::to_string(ranks)};
  }
  return Error{Code::not_found, "no algorithm '" + std::string(wanted) + "' for " +
                                    std::string(name(collective)) +
                                    "; there are: " + names_for(collective)};
}

uint64_t model_piece(const Algorithm& algorithm, uint64_t count) noexcept {
  constexpr uint64_t kPieces = 64;
  return algorithm.traits.passes_on ? std::max<uint64_t>(1, count / kPieces) : 0;
}

bool adds_in_rank_order(const Algorithm& algorithm) noexcept {
  if (algorithm.collective == Collective::combine) return !algorithm.traits.by_rack;
  return algorithm.traits.rank_order || !reduces(algorithm.collective);
}

Program program_of(const Algorithm& algorithm, const Shape& shape, uint32_t rank) {
  WEFT_DCHECK(rank < shape.ranks);
  WEFT_DCHECK(!algorithm.traits.power_of_two || std::has_single_bit(shape.ranks));
  Builder builder(shape, rank);
  algorithm.emit(builder);
  return builder.take_program();
}

std::vector<Program> programs_of(const Algorithm& algorithm, const Shape& shape) {
  std::vector<Program> programs;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank)
    programs.push_back(program_of(algorithm, shape, rank));
  return programs;
}

}  // namespace weft::collective
