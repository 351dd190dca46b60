// SPDX-License-Identifier: BSD-3-Clause
// Choice by size, for ranks that reach each other directly: processes of one host, or hosts of one
// switch. Small calls are bound by the number of steps, large ones by bytes.
#include "lib/collective/choose.hpp"

#include <bit>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr uint64_t kSmall = 16 * 1024;   // up to here steps count more than bytes
constexpr uint64_t kMiddle = 64 * 1024;  // and up to here, whom one waits for

// In a step of `direct` a rank waits for all others, in one of `halving_doubling` for one. That was
// sooner for four ranks that share two cores, up to 64 KiB; at 128 KiB it was as long.
// It passes partial sums on, at their width.
std::string_view all_reduce_wanted(uint32_t ranks, uint64_t bytes, bool exact) {
  if (bytes <= kSmall) return "doubling";
  const bool halves = exact && ranks > 2 && std::has_single_bit(ranks) && bytes <= kMiddle;
  return halves ? "halving_doubling" : "direct";
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
