// SPDX-License-Identifier: BSD-3-Clause
// The free buffers of a pool as a stack without a lock, for pools that one thread at a time takes
// from and gives to. DPDK's own costs an atomic operation each time, four times for a small message
// and its answer.
#pragma once

namespace weft::port::dpdk {

// What a pool is to be created with ("by ops"): nullptr where DPDK has no room for another kind.
const char* free_stack_name() noexcept;

}  // namespace weft::port::dpdk
