// SPDX-License-Identifier: BSD-3-Clause
// The provider ibverbs: RDMA devices of the kernel, through libibverbs.
#include "lib/verbs/provider_manifest.hpp"
#include "providers/ibverbs/open.hpp"

namespace weft::verbs {

static consteval Provider describe() {
  return {
      .open = &ibverbs::open,
      .list = &ibverbs::list,
      .order = 30,
  };
}
WEFT_PROVIDER(ibverbs, describe());

}  // namespace weft::verbs
