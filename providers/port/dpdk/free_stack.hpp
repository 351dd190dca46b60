// SPDX-License-Identifier: BSD-3-Clause
// Mempool ops of a LIFO without a lock, for pools that one thread at a time uses. DPDK's own costs
// an atomic operation for each allocation and free: four for a small message and its
// acknowledgement.
#pragma once

namespace weft::port::dpdk {

// What a pool is to be created with ("by ops"): nullptr where DPDK has no room for another kind.
const char* free_stack_name() noexcept;

}  // namespace weft::port::dpdk
