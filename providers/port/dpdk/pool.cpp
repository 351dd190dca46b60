// SPDX-License-Identifier: BSD-3-Clause
// See pool.hpp.
#include "providers/port/dpdk/pool.hpp"

#include <rte_errno.h>
#include <rte_mbuf.h>

#include <cstdlib>
#include <utility>

#include "providers/port/dpdk/free_stack.hpp"
#include "providers/port/dpdk/memif.hpp"

namespace weft::port::dpdk {
namespace {

// What was freed last is used next, while the caches have it: a queue of all buffers would walk
// through all their memory.
constexpr const char* kPoolOrder = "stack";

// The bursts of a port, received, to send, their copies, and what it sends to itself; and as much
// again.
constexpr unsigned kOfPort = 512;
constexpr unsigned kHandedOver = 1024;  // in the ring of each other engine
constexpr unsigned kOfAfXdp = 8192;     // the kernel's rings, of 2,048 each, and the driver's own

// What a driver holds between bursts.
unsigned held_by_driver(const Options& options, uint16_t receive, uint16_t transmit) {
  if (is_memif(options)) {
    if (device_argument(options, "zero-copy") != "yes") return 0;
    const std::string exponent = device_argument(options, "rsize");
    return 2u << (exponent.empty() ? 10 : std::atoi(exponent.c_str()));
  }
  if (is_one_of(options, {"net_vhost", "net_af_packet", "net_pcap", "net_null"})) return 0;
  if (is_one_of(options, {"net_af_xdp"})) return kOfAfXdp;
  return receive + transmit;
}

}  // namespace

unsigned buffers_needed(const Options& options, uint16_t receive, uint16_t transmit) {
  return kOfPort + held_by_driver(options, receive, transmit) + (options.queues - 1) * kHandedOver;
}

Result<rte_mempool*> make_pool(const std::string& name, const PoolShape& shape) {
  const char* const ours = shape.one_thread ? free_stack_name() : nullptr;
  rte_mempool* const pool =
      rte_pktmbuf_pool_create_by_ops(name.substr(0, 24).c_str(), shape.buffers, 0, 0,
                                     static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + shape.room),
                                     SOCKET_ID_ANY, ours != nullptr ? ours : kPoolOrder);
  if (pool != nullptr) return pool;
  return Error{Code::no_memory, "dpdk: no memory for " + std::to_string(shape.buffers) +
                                    " packet buffers: " + rte_strerror(rte_errno) +
                                    "; raise dpdk.memory or free hugepages"};
}

// Marks known mbufs by their port number, which allocation resets.
void reclaim(rte_mempool* pool, std::span<rte_mbuf* const> held) noexcept {
  constexpr uint16_t kKnown = RTE_MBUF_PORT_INVALID - 1;
  rte_mbuf* free = nullptr;
  while (rte_mbuf* const buffer = rte_mbuf_raw_alloc(pool)) {
    buffer->port = kKnown;
    buffer->next = std::exchange(free, buffer);
  }
  for (rte_mbuf* const buffer : held) buffer->port = kKnown;
  const auto take_back = [](rte_mempool* from, void*, void* object, unsigned) {
    auto* const buffer = static_cast<rte_mbuf*>(object);
    if (std::exchange(buffer->port, RTE_MBUF_PORT_INVALID) == kKnown) return;
    rte_mbuf_refcnt_set(buffer, 1);
    buffer->next = nullptr;
    buffer->nb_segs = 1;
    rte_mempool_put(from, buffer);
  };
  (void)rte_mempool_obj_iter(pool, take_back, nullptr);
  while (rte_mbuf* const buffer = free) {
    free = std::exchange(buffer->next, nullptr);
    rte_mbuf_raw_free(buffer);
  }
}

}  // namespace weft::port::dpdk
