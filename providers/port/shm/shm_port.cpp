// SPDX-License-Identifier: BSD-3-Clause
// Opening, receiving, sleeping. See shm_port.hpp.
#include "providers/port/shm/shm_port.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/full_fence.hpp"
#include "lib/base/log/log.hpp"
#include "lib/memory/guarded_copy.hpp"

namespace weft::port {

using shm::InLink;
using shm::OutLink;

namespace {

transport::Capabilities capabilities_of(const shm::Options& options, uint32_t burst) {
  transport::Capabilities result;
  uint32_t threshold = 0;
  if (options.by_reference == shm::ByReference::always) threshold = options.threshold;
  if (options.by_reference == shm::ByReference::measured) threshold = shm::measure_pull_threshold();
  if (threshold == 0 && options.by_reference != shm::ByReference::never)
    base::log(base::Subsystem::port, LogLevel::info, [&] {
      return "shm:" + options.job +
             ": payloads are copied twice, through the ring: process_vm_readv is forbidden here (a "
             "container's seccomp filter, or CAP_SYS_PTRACE is lacking) or was measured as no "
             "faster";
    });
  const auto half_ring = static_cast<uint32_t>(options.ring.data_bytes / 2);
  result.max_mtu = std::min(shm::kLargestMtu, half_ring);
  // Small enough that copying in, copying out and the engine's work overlap; a pull wants more.
  const uint32_t fastest = threshold != 0 ? 65536 : 16384;
  result.active_mtu = std::min(options.mtu != 0 ? options.mtu : fastest, result.max_mtu);
  result.burst = burst;
  result.integrity_bits = 0;
  result.gather = true;
  result.by_reference = threshold != 0;
  result.reference_threshold = threshold;
  result.ecn = true;
  result.lossless = true;
  result.in_flight_limit = half_ring;
  return result;
}

}  // namespace

Result<std::unique_ptr<ShmPort>> ShmPort::open(shm::Options options) {
  std::unique_ptr<ShmPort> port(new ShmPort(std::move(options)));
  if (Result<void> started = port->start(); !started) return started.error();
  return port;
}

Result<std::unique_ptr<transport::Port>> open_shm_port(const transport::PortOptions& options) {
  Result<shm::Options> parsed = shm::parse_options(options);
  if (!parsed) return parsed.error();
  Result<std::unique_ptr<ShmPort>> port = ShmPort::open(*std::move(parsed));
  if (!port) return port.error();
  return std::unique_ptr<transport::Port>(*std::move(port));
}

Result<std::unique_ptr<ShmPort>> open_shm_port_beside(const Gid& address, transport::Slot slot,
                                                      uint16_t udp_port) {
  shm::Options options;
  options.job = "udp" + std::to_string(udp_port);  // an address has a port for each protocol
  options.by_reference = shm::ByReference::never;
  options.beside = shm::Beside{address, slot};
  return ShmPort::open(std::move(options));
}

Result<void> ShmPort::start() {
  if (options_.by_reference == shm::ByReference::always && !shm::pull_permitted())
    return Error{
        Code::permission_denied,
        "shm: by_reference=1, but process_vm_readv is forbidden here (a container's seccomp "
        "filter or lacking CAP_SYS_PTRACE); use shm.by_reference=auto"};
  constexpr size_t kArena = 2 * shm::kLargestFrame;
  arena_memory_ = shm::Mapping(mmap(nullptr, kArena, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                               kArena);
  arena_ = {arena_memory_.data(), arena_memory_.size(), 0};
  if (!arena_memory_) return Error{Code::no_memory, "shm: no memory for receiving"};
  spare_ = shm::Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!events_.open())
    return Error{Code::io_error, std::string("shm: epoll_create1: ") + std::strerror(errno)};
  const std::optional<shm::Beside>& beside = options_.beside;
  const Result<void> claimed =
      beside ? names_.claim_beside(beside->address, beside->slot) : names_.claim(random_);
  if (!claimed) return claimed;
  for (std::byte& byte : nonce_) byte = static_cast<std::byte>(random_.next32());
  barrier_ = shm::register_barrier();
  memory::install_fault_guard();
  capabilities_ = capabilities_of(options_, kBurst);
  return {};
}

ShmPort::~ShmPort() { detach(nullptr, SIZE_MAX); }

size_t ShmPort::receive(std::span<transport::Frame> frames) noexcept {
  // Nothing is lent here, so links may go.
  if (calls_left_ == 0) poll_connections();
  --calls_left_;
  touched_count_ = 0;
  arena_.used = 0;
  const size_t room = std::min(frames.size(), kBurst);
  const auto links = static_cast<uint32_t>(polled_.size());
  InLink* const* const polled = polled_.data();
  size_t count = 0;
  uint32_t at = cursor_;
  for (uint32_t turns = std::min(links, kLinksPerPoll); turns != 0 && count < room; --turns) {
    if (at >= links) at = 0;
    InLink& link = *polled[at++];
    if (link.ring.ready()) count += receive_from(link, frames.first(room), count);
  }
  cursor_ = at;
  return count;
}

// Fills frames[index...]; returns how many.
size_t ShmPort::receive_from(InLink& link, std::span<transport::Frame> frames,
                             size_t index) noexcept {
  if (link.state == InLink::State::cut) return 0;
  const size_t first = index;
  size_t revoked = 0;
  shm::RingConsumer::Take taken = shm::RingConsumer::Take::frame;
  while (index < frames.size() && revoked < kBurst) {
    bool by_reference;
    transport::Frame& frame = frames[index];
    taken = link.ring.take(frame, heads_[index], arena_, by_reference);
    if (taken == shm::RingConsumer::Take::frame) {
      frame.path = &link.path;
      if (by_reference) frame.remote = &link;
      ++index;
    } else if (taken == shm::RingConsumer::Take::revoked) {
      ++revoked;
    } else {
      break;
    }
  }
  if (index != first || revoked != 0) touched_[touched_count_++] = &link;
  if (taken == shm::RingConsumer::Take::corrupt) {  //= threat:A13
    link.state = InLink::State::cut;
    cleanup_due_ = true;
    calls_left_ = 0;
    ++counts_.rx_corrupt;
  }
  counts_.rx_revoked += revoked;
  return index - first;
}

void ShmPort::release(std::span<const transport::Frame>) noexcept {
  for (size_t i = 0; i < touched_count_; ++i) {
    InLink& link = *touched_[i];
    link.ring.publish();
    std::atomic_signal_fence(std::memory_order_seq_cst);  // see announce()
    if (link.ring.control().producer_waits.load(std::memory_order_relaxed) == 0) continue;
    if (link.ring.control().producer_waits.exchange(0) != 0 && link.socket)
      shm::ring_doorbell(link.socket.fd());
  }
  touched_count_ = 0;
}

bool ShmPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  if (ends_ || !prepare_sleep(want_transmit)) {
    cancel_sleep();
    return false;
  }
  descriptors.push_back({events_.fd(), POLLIN, 0});
  asleep_ = true;
  return true;
}

// Says that we sleep, then looks once more: a peer that published before it saw that is seen here.
bool ShmPort::prepare_sleep(bool want_transmit) noexcept {
  bool barrier = want_transmit;
  for (InLink* link : polled_) {
    auto& state = link->ring.control().consumer_state;
    barrier |= state.load(std::memory_order_relaxed) == shm::kAwake;
    state.store(shm::kAsleep, std::memory_order_relaxed);
  }
  if (want_transmit) {
    for (auto& [gid, link] : out_) {
      if (!link->blocked) continue;
      // No wake-up would come from a peer that is not connected yet, or that needs a fence to see
      // our flag.
      if (!link->ring || !link->barrier) return false;
      link->ring->control().producer_waits.store(1, std::memory_order_relaxed);
    }
  }
  if (barrier_ && barrier) shm::barrier_everywhere();
  base::full_fence();
  for (InLink* link : polled_)
    if (link->state != InLink::State::cut && link->ring.ready()) return false;
  if (!want_transmit) return true;
  for (auto& [gid, link] : out_)
    if (link->blocked && (!link->ring->refresh() || link->ring->consumed() != link->blocked_at))
      return false;
  return true;
}

void ShmPort::cancel_sleep() noexcept {
  for (InLink* link : polled_)
    link->ring.control().consumer_state.store(shm::kAwakeBriefly, std::memory_order_relaxed);
  awake_briefly_ = true;
  for (auto& [gid, link] : out_)
    if (link->ring) link->ring->control().producer_waits.store(0, std::memory_order_relaxed);
}

void ShmPort::suspend_wait() noexcept {
  for (InLink* link : polled_)
    link->ring.control().consumer_state.store(shm::kAwakeBriefly, std::memory_order_relaxed);
}

bool ShmPort::resume_wait() noexcept { return prepare_sleep(false); }

void ShmPort::finish_wait() noexcept {
  asleep_ = false;
  cancel_sleep();
  calls_left_ = 0;  // something happened: look around in the next receive()
}

void ShmPort::release_service(uint64_t service) {
  names_.release_service(service);
  cleanup_due_ = true;
  calls_left_ = 0;
}

void ShmPort::append_counters(std::vector<Counter>& counters) const {
  const std::pair<const char*, uint64_t> all[] = {
      {"shm_tx_by_reference", counts_.tx_by_reference},
      {"shm_tx_no_peer", counts_.tx_no_peer},
      {"shm_tx_stalled", counts_.tx_stalled},
      {"shm_tx_unreadable", counts_.tx_unreadable},
      {"shm_tx_too_long", counts_.tx_too_long},
      {"shm_tx_doorbells", counts_.tx_doorbells},
      {"shm_rx_revoked", counts_.rx_revoked},
      {"shm_rx_corrupt", counts_.rx_corrupt},
      {"shm_rx_wrong_user", counts_.rx_wrong_user},
      {"shm_rx_bad_hello", counts_.rx_bad_hello},
      {"shm_rx_impostors", counts_.rx_impostors},
      {"shm_pulls_denied", counts_.pulls_denied},
      {"shm_peers_lost", counts_.peers_lost},
      {"shm_detach_cuts", counts_.detach_cuts},
      {"shm_links_in", in_.size()},
      {"shm_links_out", out_.size()},
  };
  for (const auto& [name, value] : all) counters.push_back({name, value});
}

}  // namespace weft::port
