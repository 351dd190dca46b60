// SPDX-License-Identifier: BSD-3-Clause
// The node GUID of a software device: see weft::node_guid() in weft/device.hpp.
#pragma once

#include <cstdint>

#include "lib/verbs/device_spec.hpp"

namespace weft::verbs {

uint64_t node_guid(const DeviceSpec& spec);

}  // namespace weft::verbs
