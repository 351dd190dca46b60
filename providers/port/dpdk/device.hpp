// SPDX-License-Identifier: BSD-3-Clause
// One DPDK device: the EAL that a process has once, a pool of packet buffers, an Ethernet device
// with one queue each way.
#pragma once

#include <cstdint>
#include <string>

#include "providers/port/dpdk/options.hpp"

struct rte_mempool;

namespace weft::port::dpdk {

// Starts the EAL if this process has not done so. The first device of a process decides about
// hugepages and memory. Thread-safe; the caller's CPU affinity is left as it is. Errors: io_error,
// with what the EAL said.
Result<void> start_eal(const Options& options);

class Device {
 public:
  // Error: not_found (no such driver or device), invalid_argument (its arguments), no_memory.
  static Result<Device> open(const Options& options);
  Device(Device&& other) noexcept;
  Device& operator=(Device&&) = delete;
  ~Device();

  uint16_t port() const noexcept { return port_; }
  rte_mempool* pool() const noexcept { return pool_; }
  const wire::MacAddress& mac() const noexcept { return mac_; }
  uint32_t mtu() const noexcept { return mtu_; }  // bytes of an IP packet
  bool link_is_up() const noexcept;

 private:
  Device() = default;
  Result<void> attach(const Options& options);
  Result<void> configure(const Options& options);
  void detach() noexcept;

  std::string name_;       // as the EAL knows it
  bool attached_ = false;  // by us
  bool configured_ = false;
  int process_ = 0;  // the one that opened it; a child of fork() leaves it alone
  uint16_t port_ = 0;
  uint32_t mtu_ = 1500;
  wire::MacAddress mac_{};
  std::string listens_at_;  // the socket of a memif server
  rte_mempool* pool_ = nullptr;
};

}  // namespace weft::port::dpdk
