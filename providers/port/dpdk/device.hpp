// SPDX-License-Identifier: BSD-3-Clause
// One DPDK device: the EAL that a process has once, an Ethernet device, and for each engine that
// uses it a queue each way with a pool of packet buffers of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "providers/port/dpdk/hand_over.hpp"
#include "providers/port/dpdk/memif_return.hpp"
#include "providers/port/dpdk/options.hpp"
#include "providers/port/dpdk/steering.hpp"

struct rte_mbuf;
struct rte_mempool;

namespace weft::port::dpdk {

// Starts the EAL if this process has not done so. The first device of a process decides about
// hugepages, memory and arguments. Thread-safe; the caller's CPU affinity is left as it is. Errors:
// invalid_argument (a later device asks for something else), no_memory (no huge pages), io_error,
// with what the EAL said.
Result<void> start_eal(const Options& options);

class Device {
 public:
  // Error: not_found (no such driver or device), address_in_use (this process has it),
  // permission_denied, not_supported, invalid_argument (its arguments), no_memory.
  static Result<std::shared_ptr<Device>> open(const Options& options);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  uint16_t port() const noexcept { return port_; }
  uint16_t queues() const noexcept { return static_cast<uint16_t>(queues_.size()); }
  rte_mempool* pool(uint16_t queue) const noexcept { return queues_[queue].pool; }
  // Payload that the device reads where it lies; null where it is copied into a buffer.
  // What came to one queue and is for another; null with one queue.
  HandOver* hand_over() const noexcept { return hand_over_.get(); }
  // Rules that bring it to the right one; null with one queue.
  Steering* steering() const noexcept { return steering_.get(); }
  const wire::MacAddress& mac() const noexcept { return mac_; }
  uint32_t mtu() const noexcept { return mtu_; }    // bytes of an IP packet
  uint32_t room() const noexcept { return room_; }  // of a buffer, for a frame
  bool link_is_up() const noexcept;
  // Now and then: a memif client whose link is down is to come back.
  void look_at_link() const noexcept {
    if (memif_return_ != nullptr && !link_is_up()) memif_return_->wake();
  }
  // Frames from this machine's kernel may have a UDP checksum that a device was to fill in, and the
  // driver does not say which: a wrong one means nothing. The ICRC covers the same bytes.
  bool checksums_are_open() const noexcept { return over_interface_; }

  // As rte_eth_rx_burst() and rte_eth_tx_burst(), but that a memif whose peer goes in the middle of
  // it, which takes the memory of the rings away under the driver, has received nothing and lost
  // what it was to send.
  uint16_t receive(uint16_t queue, rte_mbuf** buffers, uint16_t room) noexcept;
  uint16_t send(uint16_t queue, rte_mbuf** buffers, uint16_t count) noexcept;
  // That has happened, and buffers of such bursts may belong to nobody. regain() gives those back
  // to the pool: the caller holds no others than `held`. Not for a zero-copy memif, whose driver
  // keeps buffers itself, nor where another queue may hold some.
  bool faulted(uint16_t queue) const noexcept { return queues_[queue].faulted; }
  void reclaim(uint16_t queue, std::span<rte_mbuf* const> held) noexcept;
  unsigned free_buffers(uint16_t queue) const noexcept;

 private:
  Device() = default;
  Result<void> attach(const Options& options);
  Result<void> plug(const Options& options) const;
  Result<void> configure(const Options& options);
  Result<void> set_up_queue(const Options& options, uint16_t queue);
  void hear_multicast(const Options& options);
  void detach() noexcept;
  void await_link() const;
  bool pauses(uint16_t queue) noexcept {
    return memif_return_ != nullptr && memif_return_->pause(queue).holds();
  }

  std::string name_;  // as the EAL knows it
  const char* bus_ = "vdev";
  bool attached_ = false;
  bool configured_ = false;
  bool memif_ = false;
  bool over_interface_ = false;  // of the kernel
  bool promiscuous_ = false;     // which it was not before
  int multicast_ = -1;  // while it is open, an interface of the kernel passes multicast frames
  int process_ = 0;     // the one that opened it; a child of fork() leaves it alone
  uint16_t port_ = 0;
  uint32_t mtu_ = 1500;
  uint32_t room_ = 0;
  wire::MacAddress mac_{};
  std::string listens_at_;   // the socket of a memif server
  std::string connects_to_;  // that of a client
  struct alignas(64) Queue {
    rte_mempool* pool = nullptr;
    bool faulted = false;
  };
  std::vector<Queue> queues_;
  std::unique_ptr<HandOver> hand_over_;
  std::unique_ptr<Steering> steering_;
  std::unique_ptr<MemifReturn> memif_return_;  // of a client
  bool keeps_buffers_ = false;                 // the driver, between bursts, or another queue
};

}  // namespace weft::port::dpdk
