// SPDX-License-Identifier: BSD-3-Clause
// The mbuf pool of a queue: its size, and the return of mbufs that a faulted burst leaked. Queue
// pairs and requests hold no mbufs: queued data lies in the memory of the application.
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
  bool one_thread = false;  // at a time allocates and frees
};

// How many buffers a queue needs whose driver has rings of so many descriptors.
unsigned buffers_needed(const Options& options, uint16_t receive, uint16_t transmit);

// Error: no_memory.
Result<rte_mempool*> make_pool(const std::string& name, const PoolShape& shape);

// Returns leaked mbufs to the pool: those that are neither free in the pool nor `held` by the
// caller.
void reclaim(rte_mempool* pool, std::span<rte_mbuf* const> held) noexcept;

}  // namespace weft::port::dpdk
