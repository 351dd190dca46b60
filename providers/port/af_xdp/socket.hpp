// SPDX-License-Identifier: BSD-3-Clause
// One AF_XDP socket on one queue of an interface: a pool of buffers that the kernel knows (UMEM),
// half of them for what comes and half for what leaves, and the four rings through which buffers
// change hands.
//
// A buffer is a page: memory without huge pages will do. The kernel keeps 256 bytes of one that it
// fills: 3,840 are left. A longer frame lies in a chain of several (XDP_USE_SG, Linux 6.6). One to
// send is written into two pages that lie side by side; one that has come is copied together.
#pragma once

#include <xdp/xsk.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "providers/port/af_xdp/under_way.hpp"
#include "weft/device.hpp"
#include "weft/result.hpp"

namespace weft::port::af_xdp {

struct SocketOptions {
  std::string interface;
  uint32_t queue = 0;
  bool copies = false;        // even where the driver could do without
  bool chains = false;        // frames may need several buffers, if the kernel knows that
  uint32_t busy_poll_us = 0;  // 0: interrupts; else receive() drives the device's queue itself
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
  bool busy_polls() const noexcept { return busy_polls_; }  // as wanted, and the kernel knows it
  // Of a frame, Ethernet header included.
  uint32_t most_bytes() const noexcept { return (chains_ ? 2 : 1) * (kBufferSize - kHeadroom); }
  // Of what buffer() points to.
  uint32_t buffer_bytes() const noexcept { return (chains_ ? 2 : 1) * kBufferSize; }

  // Frames that have come, oldest first; they stay until give_back() has got as many.
  struct Arrival {
    std::byte* bytes = nullptr;
    uint32_t length = 0;
    uint64_t buffer = 0;  // kNone: given back already
  };
  size_t receive(std::span<Arrival> arrivals) noexcept;
  void give_back(std::span<const Arrival> arrivals) noexcept;
  bool has_arrivals() noexcept;

  // Buffers to fill; fewer than wanted: the rest is on its way.
  size_t take_buffers(size_t wanted) noexcept;
  std::byte* buffer(size_t i) noexcept { return memory_ + taken_[i]; }
  // Sends the first `count` of the taken buffers, which hold that many bytes, and keeps the others.
  void send(std::span<const uint32_t> lengths) noexcept;
  // Tells the kernel of frames that it has not fetched.
  void kick() noexcept;
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
  void collect() noexcept;
  size_t done_buffers() const;

  std::byte* memory_ = nullptr;
  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
  bool busy_polls_ = false;
  bool chains_ = false;
  uint64_t too_long_ = 0;                // frames of more than two buffers
  std::unique_ptr<std::byte[]> joined_;  // with chains: a place for each arrival
  // Zeroed: the library fills in what it needs.
  xsk_ring_prod fill_{}, tx_{};
  xsk_ring_cons done_{}, rx_{};
  std::vector<uint64_t> free_;   // buffers for sending, with chains the first of each two
  std::vector<uint64_t> taken_;  // of those, at take_buffers()
  UnderWay under_way_;           // with chains: those at send()
};

}  // namespace weft::port::af_xdp
