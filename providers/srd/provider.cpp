// SPDX-License-Identifier: BSD-3-Clause
// The provider srd: scalable reliable datagrams in software over the ports of providers/port.
#include "lib/verbs/provider_manifest.hpp"
#include "providers/srd/srd_context.hpp"

namespace weft::verbs {

static consteval Provider describe() {
  return {
      .open = &srd_provider::open,
      .list = &srd_provider::list,
      .order = 20,
  };
}
WEFT_PROVIDER(srd, describe());

}  // namespace weft::verbs
