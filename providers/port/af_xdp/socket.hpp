// SPDX-License-Identifier: BSD-3-Clause
// One AF_XDP socket on one queue of an interface: a umem, half of its frames for receiving and half
// for sending, and the four rings: fill, RX, TX, completion.
//
// A umem frame is a page, so huge pages are not needed. The kernel reserves 256 bytes of headroom:
// 3,840 remain. A longer packet takes several (XDP_USE_SG, Linux 6.6): one to send is written into
// two adjacent umem frames, a received one is copied into contiguous memory.
#pragma once

#include <xdp/xsk.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "providers/port/af_xdp/in_flight_pages.hpp"
#include "weft/device.hpp"
#include "weft/result.hpp"

namespace weft::port::af_xdp {

struct SocketOptions {
  std::string interface;
  uint32_t queue = 0;
  bool copies = false;        // XDP_COPY even where the driver has zero-copy
  bool chains = false;        // multi-buffer packets, if the kernel supports them
  uint32_t busy_poll_us = 0;  // 0: interrupts; else SO_PREFER_BUSY_POLL
};

class Socket {
 public:
  static constexpr uint32_t kBufferSize = 4096;
  static constexpr uint32_t kHeadroom = 256;   // the kernel's
  static constexpr size_t kMostArrivals = 64;  // of one receive()

  ~Socket();
  Socket(const Socket&) = delete;  // the library keeps pointers to its rings
  Socket& operator=(const Socket&) = delete;

  // Errors: permission_denied, address_in_use, no_memory (RLIMIT_MEMLOCK), not_supported, io_error.
  static Result<std::unique_ptr<Socket>> open(const SocketOptions& options);

  int fd() const noexcept { return xsk_socket__fd(socket_); }
  bool zero_copy() const noexcept;
  bool chains() const noexcept { return chains_; }
  bool busy_polls() const noexcept { return busy_polls_; }  // requested, and the kernel supports it
  // Of a frame, Ethernet header included.
  uint32_t most_bytes() const noexcept { return (chains_ ? 2 : 1) * (kBufferSize - kHeadroom); }
  // Of what buffer() points to.
  uint32_t buffer_bytes() const noexcept { return (chains_ ? 2 : 1) * kBufferSize; }

  // Received packets, oldest first; valid until recycle().
  struct Arrival {
    std::byte* bytes = nullptr;
    uint32_t length = 0;
    uint64_t buffer = 0;  // kNone: recycled already
  };
  size_t receive(std::span<Arrival> arrivals) noexcept;
  void recycle(std::span<const Arrival> arrivals) noexcept;
  bool has_arrivals() noexcept;

  // Allocates transmit buffers; returns fewer than `wanted` if the others are in flight.
  size_t allocate_buffers(size_t wanted) noexcept;
  std::byte* buffer(size_t i) noexcept { return memory_ + allocated_[i]; }
  // Sends the first `count` of the taken buffers, which hold that many bytes, and keeps the others.
  void send(std::span<const uint32_t> lengths) noexcept;
  // Wakes the kernel (XDP_USE_NEED_WAKEUP) to send frames of the TX ring.
  void wake_transmitter() noexcept;
  bool unsent() const noexcept;

  void append_counters(std::vector<Counter>& counters) const;

 private:
  Socket() = default;
  static constexpr uint32_t kRxBuffers = 4096, kTxBuffers = 2048;
  static constexpr uint64_t kNone = ~uint64_t{0};
  static constexpr uint32_t kTooLong = ~uint32_t{0};  // length of a frame that fits nowhere

  Result<void> make_buffers();
  Result<void> bind(const SocketOptions& options);
  int try_bind(const SocketOptions& options);
  void wake_receiver() noexcept;
  size_t receive_chains(std::span<Arrival> arrivals) noexcept;
  void append(Arrival& arrival, uint64_t address, uint32_t length) noexcept;
  void fill(std::span<const uint64_t> buffers) noexcept;
  void busy_poll(uint32_t us) noexcept;
  void reclaim_completed() noexcept;
  size_t completed_buffers() const;

  std::byte* memory_ = nullptr;
  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
  bool busy_polls_ = false;
  bool chains_ = false;
  uint64_t too_long_ = 0;                // frames of more than two buffers
  std::unique_ptr<std::byte[]> joined_;  // with chains: a place for each arrival
  // Zeroed: the library fills in what it needs.
  xsk_ring_prod fill_{}, tx_{};
  xsk_ring_cons completion_{}, rx_{};
  std::vector<uint64_t> free_;       // buffers for sending, with chains the first of each two
  std::vector<uint64_t> allocated_;  // by allocate_buffers(), not sent yet
  InFlightPages in_flight_;          // with multi-buffer packets
};

}  // namespace weft::port::af_xdp
