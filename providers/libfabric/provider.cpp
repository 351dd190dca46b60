// SPDX-License-Identifier: BSD-3-Clause
// The provider libfabric: weft's API over the endpoints of a provider of libfabric.
#include "lib/verbs/provider_manifest.hpp"
#include "providers/libfabric/open.hpp"

namespace weft::verbs {

static consteval Provider describe() {
  return {
      .open = &libfabric::open,
      .list = &libfabric::list,
      .order = 40,
  };
}
WEFT_PROVIDER(libfabric, describe());

}  // namespace weft::verbs
