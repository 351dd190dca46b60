// SPDX-License-Identifier: BSD-3-Clause
// Choice by size, for ranks that reach each other directly (processes of one host, or hosts of one
// switch). The number of steps bounds small calls, the number of bytes large ones.
#include "lib/collective/plan/choose.hpp"

#include <bit>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr uint64_t kSmall = 16 * 1024;  // bytes: up to this size latency dominates

// In a step of `direct` a rank waits for all peers, in a step of `halving_doubling` for one. With
// four and eight ranks on two cores, halving_doubling took less time than `doubling` from 4 KiB on,
// no more processor time from 16 KiB on, and less time than `direct` up to 128 KiB. It sends
// partial sums at accumulator width, so it is only chosen if accumulators are elements.
std::string_view all_reduce_wanted(uint32_t ranks, uint64_t bytes, bool exact) {
  constexpr uint64_t kDoubled = 8 * 1024, kHalved = 128 * 1024;
  const bool may_halve = exact && ranks > 2 && std::has_single_bit(ranks);
  if (may_halve && bytes > kDoubled && bytes <= kHalved) return "halving_doubling";
  return bytes <= kSmall ? "doubling" : "direct";
}

std::string_view wanted(Collective collective, uint32_t ranks, uint64_t bytes, bool exact,
                        Numerics numerics) {
  switch (collective) {
    case Collective::all_reduce:
      if (numerics == Numerics::any) return bytes * ranks <= 4 * kSmall ? "single_step" : "direct";
      return all_reduce_wanted(ranks, bytes, exact);
    case Collective::broadcast:
      return bytes <= kSmall ? "binomial" : "ring";
    case Collective::reduce:
      if (numerics == Numerics::any) return "direct";
      return bytes <= kSmall ? "binomial" : "ring";
    case Collective::all_gather:
    case Collective::all_gather_v:
      return bytes <= kSmall && ranks > 2 ? "bruck" : "direct";
    case Collective::all_to_all:
      return bytes <= kSmall && ranks > 8 ? "bruck" : "direct";
    default:
      return "direct";
  }
}

}  // namespace

const Algorithm& choose(Collective collective, uint32_t ranks, uint64_t bytes, bool exact,
                        Numerics numerics) {
  const Result<const Algorithm*> found =
      find_algorithm(wanted(collective, ranks, bytes, exact, numerics), collective, ranks);
  WEFT_CHECK(found);
  return **found;
}

}  // namespace weft::collective
