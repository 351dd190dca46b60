// SPDX-License-Identifier: BSD-3-Clause
// The provider ibverbs, without a header of libibverbs.
#pragma once

#include "lib/verbs/provider.hpp"

namespace weft::ibverbs {

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
// A row for each device of this machine, or one that says why there is none.
void list(std::vector<DeviceListing>& out, LoadModules modules);

}  // namespace weft::ibverbs
