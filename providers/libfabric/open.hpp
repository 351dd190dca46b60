// SPDX-License-Identifier: BSD-3-Clause
// Opening devices of provider libfabric, for provider.cpp.
#pragma once

#include <vector>

#include "lib/verbs/provider.hpp"

namespace weft::libfabric {

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
void list(std::vector<DeviceListing>& out, LoadModules modules);

}  // namespace weft::libfabric
