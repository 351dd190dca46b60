// SPDX-License-Identifier: BSD-3-Clause
// Frames in and out of packet buffers. See dpdk_port.hpp.
#include "providers/port/dpdk/dpdk_port.hpp"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "lib/base/clock.hpp"
#include "lib/transport/shared_address.hpp"
#include "lib/wire/int_block.hpp"
#include "providers/port/dpdk/kernel_interface.hpp"
#include "providers/port/dpdk/vhost.hpp"
#include "providers/port/ethernet/framing.hpp"

namespace weft::port {
namespace {

constexpr int64_t kShortestSleepNs = 50'000;
constexpr int64_t kLongestSleepNs = 10'000'000;
// Set for "good", and for "whole, though its checksum is not" of a machine's own kernel. What a
// device calls bad is looked at here: some say so of datagrams without a checksum.
constexpr uint64_t kNothingToCheck = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static_assert((RTE_MBUF_F_RX_L4_CKSUM_NONE & kNothingToCheck) != 0 &&
              (RTE_MBUF_F_RX_L4_CKSUM_BAD & kNothingToCheck) == 0);

// RFC 4291: the interface identifier is the MAC address with ff:fe in the middle.
Gid link_local(const wire::MacAddress& mac) {
  Gid gid;
  gid.bytes = {
      0xFE,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 2),
      mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5]};
  return gid;
}

ethernet::Neighbours::Self self_of(const dpdk::Device& device, const dpdk::Options& options) {
  ethernet::Neighbours::Self self;
  self.mac = device.mac();
  self.address = options.address == Gid{} ? link_local(device.mac()) : options.address;
  self.vlan = static_cast<uint16_t>(options.vlan);
  self.prefix = static_cast<uint8_t>(options.prefix);
  self.gateway = options.gateway;
  return self;
}

transport::Capabilities describe(const dpdk::Device& device, const Gid& address,
                                 const dpdk::Options& options) {
  const bool telemetry = options.telemetry_port != 0;
  const uint32_t block = telemetry ? uint32_t{sizeof(wire::IntBlock)} : 0;
  transport::Capabilities c =
      ethernet::capabilities_of(address, device.mtu() - block, options.udp_port);
  c.telemetry = telemetry;
  c.signs = true;
  c.in_flight_limit = 1024 * 1024;  // with the overhead: fits a ring of 1,024 buffers
  c.packet_overhead = 1024;
  return c;
}

// Of two processes that open the same socket at once and both choose to serve, one fails: it
// retries as the client.
Result<std::shared_ptr<dpdk::Device>> open_new_device(const transport::PortOptions& options,
                                                      const dpdk::Options& parsed) {
  Result<std::shared_ptr<dpdk::Device>> device = dpdk::Device::open(parsed);
  if (device) return device;
  const Result<dpdk::Options> again = dpdk::parse_options(options);
  const bool other = again && again->device_arguments != parsed.device_arguments;
  return other ? dpdk::Device::open(*again) : std::move(device);
}

// That of the device's first engine serves the others.
Result<std::shared_ptr<dpdk::Device>> open_device(const transport::PortOptions& options,
                                                  const dpdk::Options& parsed) {
  if (options.first != nullptr) return static_cast<const DpdkPort*>(options.first)->device();
  return open_new_device(options, parsed);
}

}  // namespace

Result<std::unique_ptr<transport::Port>> open_dpdk_port(const transport::PortOptions& options) {
  const dpdk::VhostSetupLock turn(options);
  const Result<dpdk::Options> parsed = dpdk::parse_options(options);
  if (!parsed) return parsed.error();
  Result<std::shared_ptr<dpdk::Device>> device = open_device(options, *parsed);
  if (!device) return device.error();
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer < 0)
    return Error{Code::no_memory, std::string("dpdk: timerfd_create: ") + std::strerror(errno)};
  const auto queue = static_cast<uint16_t>(options.engine);
  return std::unique_ptr<transport::Port>(new DpdkPort(*std::move(device), queue, *parsed, timer));
}

DpdkPort::DpdkPort(std::shared_ptr<dpdk::Device> device, uint16_t queue,
                   const dpdk::Options& options, int timer)
    : device_(std::move(device)),
      queue_(queue),
      longest_(device_->room() - wire::kMaxOuterLength),
      neighbours_(self_of(*device_, options)),
      udp_port_(options.udp_port),
      telemetry_port_(options.telemetry_port),
      timer_(timer),
      joined_(new std::byte[kBurst * kLongestFrame]) {
  capabilities_ = describe(*device_, neighbours_.self().address, options);
  for (const auto& [address, mac] : options.neighbours) neighbours_.add(address, mac);
  neighbours_.add(neighbours_.self().address, device_->mac());
  looped_.reserve(kBurst);
  if (const uint32_t below = dpdk::interface_index(options)) watch_.emplace(below, Gid{});
}

// Closing the device destroys its rings in shared memory with frames that the peer has not
// received, perhaps the last acknowledgement. An idle peer polls every 10 ms, later on a busy
// machine.
DpdkPort::~DpdkPort() {
  constexpr useconds_t kLinger_us = 40'000;
  if (counters_.tx_frames != 0) usleep(kLinger_us);
  rte_pktmbuf_free_bulk(looped_.data(), static_cast<unsigned>(looped_.size()));
  close(timer_);
}

// ---- receiving

size_t DpdkPort::receive(std::span<transport::Frame> frames) noexcept {
  if (++polls_ % kPollsPerClockRead == 0) update_time();
  if (device_->faulted(queue_)) device_->reclaim(queue_, looped_);  // all outside the pool now
  const auto room = static_cast<uint16_t>(std::min<size_t>(frames.size(), kBurst));
  dpdk::HandOver* const others = device_->hand_over();
  const uint16_t redirected = others == nullptr ? 0 : others->pop(queue_, received_.data(), room);
  const size_t own = std::min<size_t>(looped_.size(), room - redirected);
  std::copy_n(looped_.begin(), own, received_.begin() + redirected);
  looped_.erase(looped_.begin(), looped_.begin() + static_cast<long>(own));
  const auto had = static_cast<uint16_t>(redirected + own);
  const auto got = static_cast<uint16_t>(
      had + device_->receive(queue_, &received_[had], static_cast<uint16_t>(room - had)));
  size_t count = 0;
  for (uint16_t i = 0; i < got; ++i) {
    rte_mbuf* buffer = received_[i];
    if (i + 1 < got) __builtin_prefetch(rte_pktmbuf_mtod(received_[i + 1], void*));
    if (accept(buffer, i < redirected, frames[count], paths_[count])) {
      received_[count++] = buffer;
    } else {
      rte_pktmbuf_free(buffer);
    }
  }
  lent_ = count;
  counters_.rx_frames += count;
  if (got != 0) slept_ns_ = 0;
  if (!unresolved_.empty()) (void)send_resolved();
  if (got != count) send_neighbour_messages();
  return count;
}

// False: no frame for the engine; null where another has it now. `handed`: by another, which has
// looked at it.
bool DpdkPort::accept(rte_mbuf*& buffer, bool redirected, transport::Frame& frame,
                      transport::Path& path) noexcept {
  auto* bytes = rte_pktmbuf_mtod(buffer, std::byte*);
  uint32_t length = buffer->data_len;
  if (buffer->nb_segs != 1) {
    bytes = join(buffer, path);
    length = buffer->pkt_len;
    if (bytes == nullptr) return ++counters_.rx_malformed, false;
  }
  wire::Outer outer;
  wire::Transport transport;
  const bool sums = (buffer->ol_flags & kNothingToCheck) == 0 && !device_->checksums_are_open();
  const wire::OuterError error = wire::parse_outer(bytes, length, outer, transport, sums);
  if (error != wire::OuterError::none) {
    const bool other = error == wire::OuterError::not_ip || error == wire::OuterError::not_udp;
    if (other && neighbours_.on_message(bytes, length, !redirected)) {
      ++counters_.rx_neighbour;
      if (!redirected) copy_to_engines(buffer);
    } else {
      ++(other ? counters_.rx_foreign : counters_.rx_malformed);
    }
    return false;
  }
  const ethernet::Neighbours::Self& self = neighbours_.self();
  const bool for_us = outer.destination == self.address || groups_.has(outer.destination);
  if (!redirected && outer.destination.is_multicast()) copy_to_engines(buffer);
  if (!for_us || outer.vlan != self.vlan ||
      (outer.destination_port != udp_port_ &&
       (outer.destination_port != telemetry_port_ || telemetry_port_ == 0))) {
    ++counters_.rx_foreign;
    return false;
  }
  ethernet::make_frame(outer, transport, path, frame);
  return redirected || device_->queues() == 1 || outer.destination.is_multicast() ||
         claim_or_hand_over(buffer, frame);
}

// The bytes of a frame that came in several buffers: in the first, if they fit there, else beside.
// Null: longer than any for us.
std::byte* DpdkPort::join(rte_mbuf* buffer, const transport::Path& path) noexcept {
  ++counters_.rx_joined;
  if (rte_pktmbuf_linearize(buffer) == 0) return rte_pktmbuf_mtod(buffer, std::byte*);
  if (buffer->pkt_len > kLongestFrame) return nullptr;
  std::byte* const whole = &joined_[static_cast<size_t>(&path - paths_.data()) * kLongestFrame];
  const void* const at = rte_pktmbuf_read(buffer, 0, buffer->pkt_len, whole);
  return const_cast<std::byte*>(static_cast<const std::byte*>(at));  // null: shorter than it says
}

// ---- several engines: the upper byte of a queue pair's number is that of its engine, plus one

transport::Port::QpnRange DpdkPort::qpn_range() const noexcept {
  if (device_->queues() == 1) return {};
  return transport::qpn_range_of(static_cast<transport::Slot>(queue_ + 1));
}

// False: the frame is for another engine and handed over. Engine 0 gets frames without an engine,
// among them those for queue pair 1.
bool DpdkPort::claim_or_hand_over(rte_mbuf*& buffer, const transport::Frame& frame) noexcept {
  const bool named = transport::names_queue_pair(frame.bytes, frame.length);
  const transport::Slot top = named ? transport::slot_by_queue_pair(frame.bytes) : 0;
  const auto engine = static_cast<uint16_t>(top == 0 || top > device_->queues() ? 0 : top - 1);
  if (engine == queue_) return true;
  device_->steering()->misplaced(queue_, engine, frame);
  hand_over(engine, std::exchange(buffer, nullptr));
  return false;
}

void DpdkPort::hand_over(uint16_t engine, rte_mbuf* buffer) noexcept {
  const bool given = buffer != nullptr && device_->hand_over()->push(engine, buffer);
  ++(given ? counters_.handed_over : counters_.handed_drops);
  if (!given) rte_pktmbuf_free(buffer);
}

// What is for all engines: multicast, messages between neighbours.
void DpdkPort::copy_to_engines(const rte_mbuf* buffer) noexcept {
  for (uint16_t engine = 0; engine < device_->queues(); ++engine)
    if (engine != queue_)
      hand_over(engine, rte_pktmbuf_copy(buffer, device_->pool(queue_), 0, UINT32_MAX));
}

void DpdkPort::release(std::span<const transport::Frame>) noexcept {
  rte_pktmbuf_free_bulk(received_.data(), static_cast<unsigned>(lent_));
  lent_ = 0;
}

// ---- sleeping

// Most virtual devices have no wake-up descriptor: a timer ends the sleep, after a fraction of the
// time since the last frame, so that a busy port is polled soon and an idle one costs little.
bool DpdkPort::prepare_wait(std::vector<pollfd>& descriptors, bool) {
  update_time();
  if (!looped_.empty() || !unresolved_.empty()) return false;
  const int64_t ns = std::clamp(slept_ns_ / 32, kShortestSleepNs, kLongestSleepNs);
  slept_ns_ += ns;
  const itimerspec once{{}, {0, ns}};
  if (timerfd_settime(timer_, 0, &once, nullptr) != 0) return false;
  descriptors.push_back({timer_, POLLIN, 0});
  dpdk::HandOver* const others = device_->hand_over();
  if (others == nullptr) return true;
  descriptors.push_back({others->fd(queue_), POLLIN, 0});
  return others->prepare_wait_of(queue_);
}

void DpdkPort::finish_wait() noexcept {
  if (device_->hand_over() != nullptr) device_->hand_over()->finish_wait_of(queue_);
  uint64_t expired;
  if (read(timer_, &expired, sizeof expired) < 0) return;  // woken by something else
}

}  // namespace weft::port
