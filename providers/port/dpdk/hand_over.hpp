// SPDX-License-Identifier: BSD-3-Clause
// Passes packet buffers that arrived on the queue of one engine to the engine that they are for.
// Each engine has a ring with many producers, which it polls, and an eventfd that wakes it; without
// traffic to hand over no cache line of it is written. One thread at a time polls each engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/result.hpp"

struct rte_mbuf;
struct rte_ring;

namespace weft::port::dpdk {

class HandOver {
 public:
  // Error: no_memory. `name`: of the device.
  static Result<std::unique_ptr<HandOver>> create(const std::string& name, uint16_t engines);
  ~HandOver();

  // False: the ring of `to` is full, the caller keeps the buffer.
  bool push(uint16_t to, rte_mbuf* buffer) noexcept;
  uint16_t pop(uint16_t engine, rte_mbuf** buffers, uint16_t room) noexcept;

  // Call before the engine sleeps on fd(engine); false: its ring is not empty. After each true,
  // finish_wait_of().
  bool prepare_wait_of(uint16_t engine) noexcept;
  void finish_wait_of(uint16_t engine) noexcept;
  int fd(uint16_t engine) const noexcept { return boxes_[engine]->fd; }

 private:
  struct Box {
    rte_ring* ring = nullptr;
    int fd = -1;
    std::atomic<bool> waiting{false};
  };
  HandOver() = default;
  std::vector<std::unique_ptr<Box>> boxes_;
};

}  // namespace weft::port::dpdk
