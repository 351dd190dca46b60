// SPDX-License-Identifier: BSD-3-Clause
// See socket.hpp. Rings: Documentation/networking/af_xdp.rst of the kernel.
#include "providers/port/af_xdp/socket.hpp"

#include <fcntl.h>
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::port::af_xdp {
namespace {

// Of asm-generic/socket.h; the C library's header may be older than the kernel.
constexpr int kSoPreferBusyPoll = 69, kSoBusyPollBudget = 70;
constexpr int kBudget = 64;     // frames of one turn of busy polling
constexpr int kBindTries = 40;  // a socket that has just closed keeps its queue for a while
constexpr useconds_t kBindPause_us = 50'000;

Error failed(const char* what, int error) {
  if (error == EPERM || error == EACCES)
    return {Code::permission_denied,
            "af_xdp: AF_XDP sockets need CAP_NET_RAW and CAP_NET_ADMIN: run as root; roce+udp "
            "needs no privilege"};
  if (error == EBUSY)
    return {Code::address_in_use,
            "af_xdp: another AF_XDP socket has this queue of the interface: one device each"};
  if (error == ENOMEM || error == ENOBUFS)
    return {Code::no_memory, std::string("af_xdp: ") + what +
                                 ": no memory that may be locked for 24 MiB of buffers: raise "
                                 "`ulimit -l`"};
  if (error == EAFNOSUPPORT || error == EOPNOTSUPP)
    return {Code::not_supported, std::string("af_xdp: ") + what + ": " + std::strerror(error) +
                                     ": a kernel with CONFIG_XDP_SOCKETS, and an interface that "
                                     "takes such sockets"};
  return {Code::io_error, std::string("af_xdp: ") + what + ": " + std::strerror(error)};
}

}  // namespace

Socket::~Socket() {
  if (socket_ != nullptr) xsk_socket__delete(socket_);
  if (umem_ != nullptr) (void)xsk_umem__delete(umem_);
  if (memory_ != nullptr) ::munmap(memory_, size_t{kRxBuffers + kTxBuffers} * kBufferSize);
}

Result<std::unique_ptr<Socket>> Socket::open(const SocketOptions& options) {
  std::unique_ptr<Socket> socket(new Socket);
  if (const Result<void> made = socket->make_buffers(); !made) return made.error();
  if (const Result<void> bound = socket->bind(options); !bound) return bound.error();
  if (options.busy_poll_us != 0) socket->busy_poll(options.busy_poll_us);
  return socket;
}

Result<void> Socket::make_buffers() {
  const size_t size = size_t{kRxBuffers + kTxBuffers} * kBufferSize;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return failed("buffers", errno);
  memory_ = static_cast<std::byte*>(memory);
  (void)::madvise(memory, size, MADV_DONTFORK);  // a child must not take pages that come in
  const xsk_umem_config config = {.fill_size = kRxBuffers,
                                  .comp_size = kTxBuffers,
                                  .frame_size = kBufferSize,
                                  .frame_headroom = 0,
                                  .flags = 0};
  if (const int result = xsk_umem__create(&umem_, memory, size, &fill_, &done_, &config);
      result != 0)
    return failed("registering buffers", -result);
  taken_.reserve(kTxBuffers);
  free_.reserve(kTxBuffers);
  for (uint64_t i = 0; i < kTxBuffers; ++i) free_.push_back((kRxBuffers + i) * kBufferSize);
  uint32_t at = 0;
  xsk_ring_prod__reserve(&fill_, kRxBuffers, &at);
  for (uint64_t i = 0; i < kRxBuffers; ++i)
    *xsk_ring_prod__fill_addr(&fill_, at++) = i * kBufferSize;
  xsk_ring_prod__submit(&fill_, kRxBuffers);
  return {};
}

Result<void> Socket::bind(const SocketOptions& options) {
  xsk_socket_config config{};
  config.rx_size = kRxBuffers;
  config.tx_size = kTxBuffers;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = static_cast<uint16_t>(XDP_USE_NEED_WAKEUP | (options.copies ? XDP_COPY : 0));
  int result = 0;
  for (int tries = 0; tries < kBindTries; ++tries) {
    result = xsk_socket__create(&socket_, options.interface.c_str(), options.queue, umem_, &rx_,
                                &tx_, &config);
    if (result != -EBUSY) break;
    ::usleep(kBindPause_us);
  }
  if (result == 0) {
    (void)::fcntl(fd(), F_SETFD, FD_CLOEXEC);
    return {};
  }
  socket_ = nullptr;
  return failed("binding to the queue", -result);
}

void Socket::busy_poll(uint32_t us) noexcept {
  const int one = 1, time = static_cast<int>(us);
  busy_polls_ = ::setsockopt(fd(), SOL_SOCKET, kSoPreferBusyPoll, &one, sizeof one) == 0 &&
                ::setsockopt(fd(), SOL_SOCKET, SO_BUSY_POLL, &time, sizeof time) == 0 &&
                ::setsockopt(fd(), SOL_SOCKET, kSoBusyPollBudget, &kBudget, sizeof kBudget) == 0;
}

bool Socket::zero_copy() const noexcept {
  xdp_options options{};
  socklen_t length = sizeof options;
  return ::getsockopt(fd(), SOL_XDP, XDP_OPTIONS, &options, &length) == 0 &&
         (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

// ---- receiving

bool Socket::has_arrivals() noexcept { return xsk_cons_nb_avail(&rx_, 1) != 0; }

size_t Socket::receive(std::span<Arrival> arrivals) noexcept {
  uint32_t at = 0;
  const uint32_t count = xsk_ring_cons__peek(&rx_, static_cast<uint32_t>(arrivals.size()), &at);
  for (uint32_t i = 0; i < count; ++i) {
    const xdp_desc& desc = *xsk_ring_cons__rx_desc(&rx_, at + i);
    arrivals[i] = {memory_ + desc.addr, desc.len, desc.addr};
  }
  if (count != 0) {
    xsk_ring_cons__release(&rx_, count);
  } else if (busy_polls_ || xsk_ring_prod__needs_wakeup(&fill_) != 0) {
    (void)::recvfrom(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
  }
  return count;
}

// The ring has a place for every buffer.
void Socket::give_back(std::span<const Arrival> arrivals) noexcept {
  if (arrivals.empty()) return;
  const auto count = static_cast<uint32_t>(arrivals.size());
  uint32_t at = 0;
  if (xsk_ring_prod__reserve(&fill_, count, &at) != count) return;
  for (const Arrival& arrival : arrivals)
    *xsk_ring_prod__fill_addr(&fill_, at++) = arrival.buffer & ~uint64_t{kBufferSize - 1};
  xsk_ring_prod__submit(&fill_, count);
}

// ---- sending

// Buffers of frames that have left.
void Socket::collect() noexcept {
  uint32_t at = 0;
  const uint32_t count = xsk_ring_cons__peek(&done_, kTxBuffers, &at);
  for (uint32_t i = 0; i < count; ++i) free_.push_back(*xsk_ring_cons__comp_addr(&done_, at + i));
  if (count != 0) xsk_ring_cons__release(&done_, count);
}

size_t Socket::take_buffers(size_t wanted) noexcept {
  if (free_.size() + taken_.size() < wanted) {
    kick();
    collect();
  }
  for (; taken_.size() < wanted && !free_.empty(); free_.pop_back()) taken_.push_back(free_.back());
  return std::min(taken_.size(), wanted);
}

void Socket::send(std::span<const uint32_t> lengths) noexcept {
  const auto count = static_cast<uint32_t>(lengths.size());
  uint32_t at = 0;
  if (count == 0 || xsk_ring_prod__reserve(&tx_, count, &at) != count) return;
  for (uint32_t i = 0; i < count; ++i)
    *xsk_ring_prod__tx_desc(&tx_, at + i) = {taken_[i], lengths[i], 0};
  xsk_ring_prod__submit(&tx_, count);
  taken_.erase(taken_.begin(), taken_.begin() + count);
  kick();
}

bool Socket::unsent() const noexcept {
  return __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE) !=
         __atomic_load_n(tx_.producer, __ATOMIC_RELAXED);
}

// Where frames are copied the call sends them, 32 at a time.
void Socket::kick() noexcept {
  for (uint32_t tries = 0; tries < kTxBuffers / 32; ++tries) {
    if (!unsent() || xsk_ring_prod__needs_wakeup(&tx_) == 0) return;
    const uint32_t before = __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE);
    if (::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 && errno != EAGAIN) return;
    if (before == __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE)) return;
  }
}

void Socket::append_counters(std::vector<Counter>& counters) const {
  xdp_statistics stats{};
  socklen_t length = sizeof stats;
  (void)::getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &stats, &length);
  const uint32_t done = __atomic_load_n(done_.producer, __ATOMIC_RELAXED) - *done_.consumer;
  counters.insert(counters.end(), {{"af_xdp_rx_dropped", stats.rx_dropped},
                                   {"af_xdp_rx_ring_full", stats.rx_ring_full},
                                   {"af_xdp_rx_no_buffer", stats.rx_fill_ring_empty_descs},
                                   {"af_xdp_tx_invalid", stats.tx_invalid_descs},
                                   {"af_xdp_buffers_free", free_.size() + done},
                                   {"af_xdp_zero_copy", zero_copy() ? 1u : 0u}});
}

}  // namespace weft::port::af_xdp
