// SPDX-License-Identifier: BSD-3-Clause
// The packet buffers of a queue: as many as can be in progress at once, and those found again that
// a burst which faulted has lost. Queue pairs and requests, whatever limits they have, hold none:
// what waits lies in the memory of the application.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "providers/port/dpdk/options.hpp"

struct rte_mbuf;
struct rte_mempool;

namespace weft::port::dpdk {

struct PoolShape {
  unsigned buffers = 0;
  uint32_t room = 0;        // of a buffer, for a frame
  bool one_thread = false;  // at a time takes from it and gives to it
};

// How many buffers a queue needs whose driver has rings of so many descriptors.
unsigned buffers_needed(const Options& options, uint16_t receive, uint16_t transmit);

// Error: no_memory.
Result<rte_mempool*> make_pool(const std::string& name, const PoolShape& shape);

// Gives those back to the pool that belong to nobody: all that can be allocated are the pool's,
// `held` are the caller's, the rest is lost.
void reclaim(rte_mempool* pool, std::span<rte_mbuf* const> held) noexcept;

}  // namespace weft::port::dpdk
