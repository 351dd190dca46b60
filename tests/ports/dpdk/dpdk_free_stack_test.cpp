// SPDX-License-Identifier: BSD-3-Clause
// A pool whose free buffers are a stack without a lock: what went in last comes out first, no more
// comes out than is there, and which devices have it.
#include <rte_mempool.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "providers/port/dpdk/device.hpp"
#include "providers/port/dpdk/free_stack.hpp"
#include "tests/support/catch.hpp"

namespace weft::port::dpdk {
namespace {

Options options_of(const std::string& socket, uint32_t queues) {
  Options options;
  options.device = "net_memif";
  options.device_arguments = "role=server,socket=" + socket + ",bsize=4416";
  options.huge = HugePages::never;
  options.memory_mb = 192;
  options.queues = queues;
  return options;
}

std::string kind_of(const Device& device) {
  return rte_mempool_get_ops(device.pool(0)->ops_index)->name;
}

TEST_CASE("dpdk free stack: LIFO, bounded by the pool") {
  REQUIRE(start_eal(options_of("", 1)));
  constexpr unsigned kObjects = 15;
  rte_mempool* const pool = rte_mempool_create_empty("t", kObjects, 64, 0, 0, SOCKET_ID_ANY, 0);
  REQUIRE(pool != nullptr);
  REQUIRE(free_stack_name() != nullptr);
  REQUIRE(rte_mempool_set_ops_byname(pool, free_stack_name(), nullptr) == 0);
  REQUIRE(rte_mempool_populate_default(pool) == int{kObjects});
  CHECK(rte_mempool_avail_count(pool) == kObjects);

  void* some[kObjects + 1] = {};
  CHECK(rte_mempool_get_bulk(pool, some, kObjects + 1) != 0);
  REQUIRE(rte_mempool_get_bulk(pool, some, 5) == 0);
  CHECK(rte_mempool_avail_count(pool) == kObjects - 5);
  rte_mempool_put_bulk(pool, some, 3);  // some[2] on top
  void* again[3] = {};
  REQUIRE(rte_mempool_get_bulk(pool, again, 3) == 0);
  CHECK(again[0] == some[2]);
  CHECK(again[1] == some[1]);
  CHECK(again[2] == some[0]);
  rte_mempool_put_bulk(pool, some, 5);
  REQUIRE(rte_mempool_get_bulk(pool, some, kObjects) == 0);
  CHECK(rte_mempool_avail_count(pool) == 0);
  CHECK(rte_mempool_get_bulk(pool, again, 1) != 0);
  rte_mempool_put_bulk(pool, some, kObjects);
  rte_mempool_free(pool);
}

TEST_CASE("dpdk free stack: used by devices with one polling thread only") {
  const std::string socket = "/tmp/weft-free-stack-" + std::to_string(getpid());
  const auto one = Device::open(options_of(socket + "1", 1));
  INFO((one ? "" : one.error().message));
  REQUIRE(one);
  CHECK(kind_of(**one) == free_stack_name());
  const auto two = Device::open(options_of(socket + "2", 2));
  INFO((two ? "" : two.error().message));
  REQUIRE(two);
  CHECK(kind_of(**two) == "stack");
}

}  // namespace
}  // namespace weft::port::dpdk
