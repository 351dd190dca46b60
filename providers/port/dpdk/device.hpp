// SPDX-License-Identifier: BSD-3-Clause
// One DPDK device: the EAL, one per process, an Ethernet device, and for each engine an RX and a TX
// queue with an mbuf pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "providers/port/dpdk/hand_over.hpp"
#include "providers/port/dpdk/memif_reconnect.hpp"
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
  // Frames that arrived on the queue of another engine; null with one queue.
  HandOver* hand_over() const noexcept { return hand_over_.get(); }
  // Flow rules that direct frames to their engine's queue; null with one queue.
  Steering* steering() const noexcept { return steering_.get(); }
  const wire::MacAddress& mac() const noexcept { return mac_; }
  uint32_t mtu() const noexcept { return mtu_; }    // bytes of an IP packet
  uint32_t room() const noexcept { return room_; }  // of a buffer, for a frame
  bool link_is_up() const noexcept;
  // Called now and then: starts reconnection of a memif client whose link is down.
  void update_link() const noexcept {
    if (memif_reconnect_ != nullptr && !link_is_up()) memif_reconnect_->start();
  }
  // Whether UDP checksums are ignored: frames of this machine's kernel may have partial ones
  // (CHECKSUM_PARTIAL), and the driver does not report which. The ICRC covers the same bytes.
  bool checksums_are_open() const noexcept { return over_interface_; }

  // rte_eth_rx_burst() and rte_eth_tx_burst() with a guard: if a memif's peer exits during the
  // call, which unmaps the rings under the driver, nothing is received and the frames to send are
  // lost.
  uint16_t receive(uint16_t queue, rte_mbuf** buffers, uint16_t room) noexcept;
  uint16_t send(uint16_t queue, rte_mbuf** buffers, uint16_t count) noexcept;
  // Whether that has happened: mbufs of such bursts leaked. reclaim() returns them to the pool; the
  // caller holds no others than `held`. It does nothing for a zero-copy memif, whose driver holds
  // mbufs, or where another queue may hold some.
  bool faulted(uint16_t queue) const noexcept { return queues_[queue].faulted; }
  void reclaim(uint16_t queue, std::span<rte_mbuf* const> held) noexcept;
  unsigned free_buffers(uint16_t queue) const noexcept;

 private:
  Device() = default;
  Result<void> attach(const Options& options);
  Result<void> plug(const Options& options) const;
  Result<void> configure(const Options& options);
  Result<void> set_up_queue(const Options& options, uint16_t queue);
  void join_all_multicast(const Options& options);
  void detach() noexcept;
  void await_link() const;
  bool pauses(uint16_t queue) noexcept {
    return memif_reconnect_ != nullptr && memif_reconnect_->pause(queue).holds();
  }

  std::string name_;  // in the EAL
  const char* bus_ = "vdev";
  bool attached_ = false;
  bool configured_ = false;
  bool memif_ = false;
  bool over_interface_ = false;  // of the kernel
  bool promiscuous_ = false;     // which it was not before
  int multicast_ = -1;  // while it is open, an interface of the kernel passes multicast frames
  int process_ = 0;     // that opened it; a child of fork() does not touch it
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
  std::unique_ptr<MemifReconnect> memif_reconnect_;  // of a client
  bool driver_holds_buffers_ = false;                // the driver, between bursts, or another queue
};

}  // namespace weft::port::dpdk
