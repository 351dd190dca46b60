// SPDX-License-Identifier: BSD-3-Clause
// The providers of this build, one row each.
#include "lib/verbs/provider.hpp"
#include "providers/roce/roce_context.hpp"
#include "providers/srd/srd_context.hpp"

namespace weft::verbs {

std::span<const Provider> providers() {
  static const Provider kProviders[] = {{"roce", &roce::open, &roce::list},
                                        {"srd", &srd::open, &srd::list}};
  return kProviders;
}

}  // namespace weft::verbs
