// SPDX-License-Identifier: BSD-3-Clause
// What all ways of registering memory share.
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// Memory of the device is memory of this process: any bound would do.
inline constexpr size_t kMaxDeviceMemory = size_t{16} << 20;

// False, and says so, if there are unknown bits.
bool is_known_access(const char* call, unsigned access) noexcept;
// The object of a region that was registered. Throws std::bad_alloc.
Mr* made_region(ibv_pd* pd, const MemoryRegion& region, void* address);

void set_device_memory_operations(verbs_context& verbs) noexcept;  // device_memory.cpp

}  // namespace weft::drop_in
