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
// Copies the bytes that a scatter/gather entry of a queue pair of `pd` names; those of a null
// region are 0. False: the key, the domain or the bounds do not allow it.
bool copy_local(const ibv_pd& pd, const ibv_sge& entry, void* to) noexcept;

void set_device_memory_operations(verbs_context& verbs) noexcept;  // device_memory.cpp

}  // namespace weft::drop_in
