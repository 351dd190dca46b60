// SPDX-License-Identifier: BSD-3-Clause
// See socket.hpp. Rings: Documentation/networking/af_xdp.rst of the kernel.
#include "providers/port/af_xdp/socket.hpp"

#include <fcntl.h>
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace weft::port::af_xdp {
namespace {

// Of asm-generic/socket.h; the C library's header may be older than the kernel.
constexpr int kSoPreferBusyPoll = 69, kSoBusyPollBudget = 70;
constexpr int kBudget = 64;     // frames of one turn of busy polling
constexpr int kBindTries = 40;  // a socket that has just closed keeps its queue for a while
constexpr useconds_t kBindPause_us = 50'000;
// Of linux/if_xdp.h, from 6.6 on.
constexpr uint16_t kUseChains = 1 << 4;  // XDP_USE_SG
constexpr uint32_t kContinued = 1;       // XDP_PKT_CONTD: the frame goes on in the next descriptor

Error failed(const char* what, int error) {
  if (error == EPERM || error == EACCES)
    return {Code::permission_denied,
            "af_xdp: AF_XDP sockets need CAP_NET_RAW and CAP_NET_ADMIN: run as root; roce+udp "
            "needs no privilege"};
  if (error == EBUSY)
    return {Code::address_in_use,
            "af_xdp: another AF_XDP socket has this queue of the interface: give each device one "
            "(af_xdp.queue=N), and have its UDP port come to it (ethtool -N)"};
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
  if (const int result = xsk_umem__create(&umem_, memory, size, &fill_, &completion_, &config);
      result != 0)
    return failed("registering buffers", -result);
  uint32_t at = 0;
  xsk_ring_prod__reserve(&fill_, kRxBuffers, &at);
  for (uint64_t i = 0; i < kRxBuffers; ++i)
    *xsk_ring_prod__fill_addr(&fill_, at++) = i * kBufferSize;
  xsk_ring_prod__submit(&fill_, kRxBuffers);
  return {};
}

int Socket::try_bind(const SocketOptions& options) {
  xsk_socket_config config{};
  config.rx_size = kRxBuffers;
  config.tx_size = kTxBuffers;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = static_cast<uint16_t>(XDP_USE_NEED_WAKEUP | (options.copies ? XDP_COPY : 0) |
                                            (chains_ ? kUseChains : 0));
  int result = 0;
  for (int tries = 0; tries < kBindTries; ++tries) {
    result = xsk_socket__create(&socket_, options.interface.c_str(), options.queue, umem_, &rx_,
                                &tx_, &config);
    if (result != -EBUSY) break;
    ::usleep(kBindPause_us);
  }
  return result;
}

Result<void> Socket::bind(const SocketOptions& options) {
  chains_ = options.chains;
  int result = try_bind(options);
  if (chains_ && (result == -EINVAL || result == -EOPNOTSUPP)) {
    chains_ = false;
    result = try_bind(options);
  }
  if (result != 0) {
    socket_ = nullptr;
    return failed("binding to the queue", -result);
  }
  (void)::fcntl(fd(), F_SETFD, FD_CLOEXEC);
  allocated_.reserve(kTxBuffers);
  free_.reserve(kTxBuffers);
  for (uint64_t i = 0; i < kTxBuffers; i += chains_ ? 2 : 1)
    free_.push_back((kRxBuffers + i) * kBufferSize);
  if (!chains_) return {};
  joined_.reset(new std::byte[kMostArrivals * buffer_bytes()]);
  in_flight_ = InFlightPages(uint64_t{kRxBuffers} * kBufferSize, buffer_bytes(), kTxBuffers / 2);
  return {};
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
  if (chains_) return receive_chains(arrivals);
  uint32_t at = 0;
  const uint32_t count = xsk_ring_cons__peek(&rx_, static_cast<uint32_t>(arrivals.size()), &at);
  for (uint32_t i = 0; i < count; ++i) {
    const xdp_desc& desc = *xsk_ring_cons__rx_desc(&rx_, at + i);
    arrivals[i] = {memory_ + desc.addr, desc.len, desc.addr};
  }
  if (count != 0)
    xsk_ring_cons__release(&rx_, count);
  else
    wake_receiver();
  return count;
}

void Socket::wake_receiver() noexcept {
  if (busy_polls_ || xsk_ring_prod__needs_wakeup(&fill_) != 0)
    (void)::recvfrom(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

// Frames of one buffer stay where they are; of others the buffers go back at once. A chain whose
// end has no room in this call stays in the ring.
size_t Socket::receive_chains(std::span<Arrival> arrivals) noexcept {
  std::array<uint64_t, kMostArrivals> copied;  // buffers
  uint32_t at = 0, whole = 0, done = 0, freed = 0;
  const uint32_t count = xsk_ring_cons__peek(&rx_, kMostArrivals, &at);
  size_t frames = 0;
  for (uint32_t i = 0; i < count && frames < arrivals.size(); ++i) {
    const xdp_desc& desc = *xsk_ring_cons__rx_desc(&rx_, at + i);
    const bool last = (desc.options & kContinued) == 0;
    Arrival& arrival = arrivals[frames];
    if (last && i == done) {
      arrival = {memory_ + desc.addr, desc.len, desc.addr};
    } else {
      if (i == done) arrival = {&joined_[frames * buffer_bytes()], 0, kNone};
      append(arrival, desc.addr, desc.len);
      copied[whole++] = desc.addr;
    }
    if (!last) continue;
    done = i + 1;
    freed = whole;
    frames += arrival.length != kTooLong;
  }
  if (count != done) xsk_ring_cons__cancel(&rx_, count - done);
  if (done != 0)
    xsk_ring_cons__release(&rx_, done);
  else
    wake_receiver();
  fill({copied.data(), freed});
  return frames;
}

void Socket::append(Arrival& arrival, uint64_t address, uint32_t length) noexcept {
  if (arrival.length == kTooLong) return;
  if (arrival.length + length > buffer_bytes()) {
    ++too_long_;
    arrival.length = kTooLong;
    return;
  }
  std::memcpy(arrival.bytes + arrival.length, memory_ + address, length);
  arrival.length += length;
}

void Socket::recycle(std::span<const Arrival> arrivals) noexcept {
  std::array<uint64_t, kMostArrivals> buffers;
  size_t count = 0;
  for (const Arrival& arrival : arrivals)
    if (arrival.buffer != kNone) buffers[count++] = arrival.buffer;
  fill({buffers.data(), count});
}

// The ring has a place for every buffer.
void Socket::fill(std::span<const uint64_t> buffers) noexcept {
  const auto count = static_cast<uint32_t>(buffers.size());
  uint32_t at = 0;
  if (count == 0 || xsk_ring_prod__reserve(&fill_, count, &at) != count) return;
  for (const uint64_t buffer : buffers)
    *xsk_ring_prod__fill_addr(&fill_, at++) = buffer & ~uint64_t{kBufferSize - 1};
  xsk_ring_prod__submit(&fill_, count);
}

// ---- sending

// Buffers of frames that have left.
void Socket::reclaim_completed() noexcept {
  uint32_t at = 0;
  const uint32_t count = xsk_ring_cons__peek(&completion_, kTxBuffers, &at);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t page = *xsk_ring_cons__comp_addr(&completion_, at + i);
    if (!chains_)
      free_.push_back(page);
    else if (in_flight_.complete(page))
      free_.push_back(in_flight_.buffer_of(page));
  }
  if (count != 0) xsk_ring_cons__release(&completion_, count);
}

size_t Socket::allocate_buffers(size_t wanted) noexcept {
  if (free_.size() + allocated_.size() < wanted) {
    wake_transmitter();
    reclaim_completed();
  }
  for (; allocated_.size() < wanted && !free_.empty(); free_.pop_back())
    allocated_.push_back(free_.back());
  return std::min(allocated_.size(), wanted);
}

void Socket::send(std::span<const uint32_t> lengths) noexcept {
  uint32_t count = 0, at = 0;
  for (const uint32_t length : lengths) count += length > kBufferSize ? 2 : 1;
  if (count == 0 || xsk_ring_prod__reserve(&tx_, count, &at) != count) return;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const bool two = lengths[i] > kBufferSize;
    if (chains_) in_flight_.send(allocated_[i], two ? 2 : 1);
    const uint32_t first = two ? kBufferSize : lengths[i];
    *xsk_ring_prod__tx_desc(&tx_, at++) = {allocated_[i], first, two ? kContinued : 0};
    if (two)
      *xsk_ring_prod__tx_desc(&tx_, at++) = {allocated_[i] + kBufferSize, lengths[i] - kBufferSize,
                                             0};
  }
  xsk_ring_prod__submit(&tx_, count);
  allocated_.erase(allocated_.begin(), allocated_.begin() + static_cast<long>(lengths.size()));
  wake_transmitter();
}

bool Socket::unsent() const noexcept {
  return __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE) !=
         __atomic_load_n(tx_.producer, __ATOMIC_RELAXED);
}

// Where frames are copied the call sends them, 32 at a time.
void Socket::wake_transmitter() noexcept {
  for (uint32_t tries = 0; tries < kTxBuffers / 32; ++tries) {
    if (!unsent() || xsk_ring_prod__needs_wakeup(&tx_) == 0) return;
    const uint32_t before = __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE);
    if (::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 && errno != EAGAIN) return;
    if (before == __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE)) return;
  }
}

// Buffers that have been sent and wait to be collected.
size_t Socket::completed_buffers() const {
  const uint32_t produced = __atomic_load_n(completion_.producer, __ATOMIC_ACQUIRE);
  InFlightPages rest = in_flight_;  // a copy: nothing is collected here
  size_t whole = 0;
  for (uint32_t at = *completion_.consumer; at != produced; ++at)
    whole += !chains_ || rest.complete(*xsk_ring_cons__comp_addr(&completion_, at)) ? 1 : 0;
  return whole;
}

void Socket::append_counters(std::vector<Counter>& counters) const {
  xdp_statistics stats{};
  socklen_t length = sizeof stats;
  (void)::getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &stats, &length);
  counters.insert(counters.end(), {{"af_xdp_rx_dropped", stats.rx_dropped + too_long_},
                                   {"af_xdp_rx_ring_full", stats.rx_ring_full},
                                   {"af_xdp_rx_no_buffer", stats.rx_fill_ring_empty_descs},
                                   {"af_xdp_tx_invalid", stats.tx_invalid_descs},
                                   {"af_xdp_buffers_free", free_.size() + completed_buffers()},
                                   {"af_xdp_chains", chains_ ? 1u : 0u},
                                   {"af_xdp_zero_copy", zero_copy() ? 1u : 0u}});
}

}  // namespace weft::port::af_xdp
