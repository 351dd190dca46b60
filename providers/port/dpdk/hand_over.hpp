// SPDX-License-Identifier: BSD-3-Clause
// Packet buffers that came to the queue of one engine and are for another. Each engine has a ring
// that all others put into, which it looks at in each turn, and a descriptor that wakes it: no line
// of it is written to unless something is handed over. Any thread at a time may be each engine's.
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

  // False: `to` has too many already, the buffer stays the caller's.
  bool give(uint16_t to, rte_mbuf* buffer) noexcept;
  uint16_t take(uint16_t engine, rte_mbuf** buffers, uint16_t room) noexcept;

  // Before engine sleeps on fd(engine): false if something is there. wakes() after each true.
  bool sleeps(uint16_t engine) noexcept;
  void wakes(uint16_t engine) noexcept;
  int fd(uint16_t engine) const noexcept { return boxes_[engine]->fd; }

 private:
  struct Box {
    rte_ring* ring = nullptr;
    int fd = -1;
    std::atomic<bool> asleep{false};
  };
  HandOver() = default;
  std::vector<std::unique_ptr<Box>> boxes_;
};

}  // namespace weft::port::dpdk
