// SPDX-License-Identifier: BSD-3-Clause
// Which device a process group runs on: WEFT_DEVICE where it is set; else shared memory if all
// ranks can meet there (one host, one user, one network namespace), else UDP from the address that
// this host has towards MASTER_ADDR.
#pragma once

#include <string>

#include "weft/store.hpp"

namespace weft::torch_adapter {

// The device string for this rank. To be called by all ranks. Errors: invalid_argument (WEFT_DEVICE
// is set for some ranks only), not_found (several hosts, and no MASTER_ADDR that both could reach),
// and those of the store.
Result<std::string> agree_on_device(Store& store, uint32_t rank, uint32_t ranks, Duration limit);

// What no other group is called, for dumps and figures. To be called by all ranks. Errors: those of
// the store.
Result<std::string> agree_on_id(Store& store, uint32_t rank, Duration limit);

}  // namespace weft::torch_adapter
