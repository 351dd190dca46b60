// SPDX-License-Identifier: BSD-3-Clause
// The providers of this build, one row each.
#include "lib/verbs/provider.hpp"
#include "providers/roce/roce_context.hpp"
#include "providers/srd/srd_context.hpp"
#if WEFT_HAVE_IBVERBS
#include "providers/ibverbs/provider.hpp"
#endif

namespace weft::verbs {

std::span<const Provider> providers() {
  static const Provider kProviders[] = {
    {"roce", &roce_provider::open, &roce_provider::list},
    {"srd", &srd_provider::open, &srd_provider::list},
#if WEFT_HAVE_IBVERBS
    {"ibverbs", &ibverbs::open, &ibverbs::list},
#endif
  };
  return kProviders;
}

}  // namespace weft::verbs
