// SPDX-License-Identifier: BSD-3-Clause
// Choice by size, for ranks that reach each other directly: processes of one host, or hosts of one
// switch. Small calls are bound by the number of steps, large ones by bytes.
#include "lib/collective/choose.hpp"

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr uint64_t kSmall = 16 * 1024;  // up to here steps count more than bytes

std::string_view wanted(Collective collective, uint32_t ranks, uint64_t bytes, Numerics numerics) {
  switch (collective) {
    case Collective::all_reduce:
      if (numerics == Numerics::any) return bytes * ranks <= 4 * kSmall ? "single_step" : "direct";
      return bytes <= kSmall ? "doubling" : "direct";
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

const Algorithm& choose(Collective collective, uint32_t ranks, uint64_t bytes, Numerics numerics) {
  const Result<const Algorithm*> found =
      find_algorithm(wanted(collective, ranks, bytes, numerics), collective, ranks);
  WEFT_CHECK(found);
  return **found;
}

}  // namespace weft::collective
