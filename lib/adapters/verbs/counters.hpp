// SPDX-License-Identifier: BSD-3-Clause
// Counters of a device for libweft-paths.so, which shows them as files (version node
// WEFT_PRIVATE_1).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

// Sets `value` to the counter `name` of weft::Device::counters(), summed up by this process since
// it opened the device. Returns 0, or ENOENT if there is no such counter.
extern "C" int weft_verbs_counter(ibv_context* context, const char* name, uint64_t* value);
