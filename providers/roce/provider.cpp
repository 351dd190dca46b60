// SPDX-License-Identifier: BSD-3-Clause
// The provider roce: RoCEv2 in software over the ports of providers/port.
#include "lib/verbs/provider_manifest.hpp"
#include "providers/roce/roce_context.hpp"

namespace weft::verbs {

static consteval Provider describe() {
  return {
      .open = &roce_provider::open,
      .list = &roce_provider::list,
      .order = 10,
  };
}
WEFT_PROVIDER(roce, describe());

}  // namespace weft::verbs
