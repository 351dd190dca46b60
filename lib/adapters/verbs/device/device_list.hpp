// SPDX-License-Identifier: BSD-3-Clause
// The devices of the process: one for each device string of WEFT_VERBS_DEVICES ("a;b"), named
// weft0, weft1 .. in that order. Without it: WEFT_DEVICE, else UDP on the interface of the default
// route, else on lo. Reading the list opens no device.
#pragma once

#include <memory>
#include <vector>

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// Made at the first call, and the same until the process ends. Throws std::bad_alloc.
const std::vector<std::unique_ptr<DeviceEntry>>& devices();

// Once, after the list was made (fork.cpp).
void watch_forks();

}  // namespace weft::drop_in
