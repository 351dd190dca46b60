// SPDX-License-Identifier: BSD-3-Clause
// Sending: frames into rings, the doorbell, and what happens when a peer is slow or not there. See
// shm_port.hpp.
#include <poll.h>
#include <sched.h>

#include <new>

#include "providers/port/shm/shm_port.hpp"

namespace weft::port {

using shm::OutLink;

namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kStallLimit = 50 * kMillisecond;    // full for so long: drop instead of waiting
constexpr int64_t kClaimLimit = 1000 * kMillisecond;  // a peer holds memory being detached

// The peer takes nothing: wait, but not for ever, because frames to other peers wait behind.
// `position` moves when the peer does something. True: the frame is lost.
bool gives_up(OutLink& link, uint64_t position, uint64_t& lost) noexcept {
  const int64_t now = shm::monotonic_ns();
  if (!link.blocked || link.blocked_at != position) {
    link.blocked = true;
    link.blocked_at = position;
    link.blocked_since_ns = now;
  }
  if (now - link.blocked_since_ns < kStallLimit) return false;
  ++lost;
  return true;
}

}  // namespace

size_t ShmPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  size_t count = 0;
  OutLink* link = last_out_;
  for (; count < frames.size(); ++count) {
    const transport::TxFrame& frame = frames[count];
    if (link == nullptr || !link->takes(frame)) {
      if (link != nullptr && link->announce()) ++counts_.tx_doorbells;
      link = route(frame);
      if (link == nullptr) {
        ++counts_.tx_no_peer;
        continue;
      }
    }
    if (link->ring && link->ring->push_small(frame)) {
      link->unannounced = true;
    } else if (!send_one(*link, frame)) {
      break;
    }
  }
  if (link != nullptr && link->announce()) ++counts_.tx_doorbells;
  return count;
}

// The link for a frame, made at first use; it may be down. Null: no memory for one, or not an
// address of this kind of port.
OutLink* ShmPort::route(const transport::TxFrame& frame) noexcept {
  const Gid& destination = frame.path->destination;
  if (names_.beside()) {
    // That of the port with this slot, or of the only one at the address, if reaches() made it.
    for (const transport::Slot slot :
         {transport::slot_by_queue_pair(frame.head), transport::Slot{0}})
      if (const auto found = out_.find(shm::name_beside(destination, slot)); found != out_.end())
        return last_out_ = found->second.get();
    return nullptr;
  }
  if (destination != names_.shared())
    return shm::is_name_of(shm::NameOf::port, destination) ? route_to(destination, destination)
                                                           : nullptr;
  const transport::Addressee to = transport::addressee_of(frame);
  if (to.service) return route_to_listener(*to.service);
  const Gid name = shm::make_gid(to.slot, shm::NameOf::slot);
  return shm::is_name_of_slot(name) ? route_to(name, names_.shared(), to.slot) : nullptr;
}

bool ShmPort::reaches(const Gid& address, QpNum number) noexcept {
  WEFT_DCHECK(names_.beside());
  for (const auto slot : {static_cast<transport::Slot>(number.value >> 16), transport::Slot{0}}) {
    const Gid name = shm::name_beside(address, slot);
    OutLink* const link = route_to(name, address, slot);
    if (link == nullptr) return false;
    if (connect(*link) == shm::Connect::ok) return true;
    last_out_ = nullptr;
    if (link->pid == 0) out_.erase(name);
  }
  return false;
}

// The link to the socket of that name, which takes frames to `address`, to `slot` if not 0.
OutLink* ShmPort::route_to(const Gid& name, const Gid& address, transport::Slot slot) noexcept {
  const auto found = out_.find(name);
  if (found != out_.end()) return last_out_ = found->second.get();
  try {
    auto made = std::make_unique<OutLink>(name);
    made->address = address;
    made->slot = slot;
    last_out_ = made.get();
    out_.emplace(name, std::move(made));
  } catch (const std::bad_alloc&) {
    return last_out_ = nullptr;
  }
  return last_out_;
}

// The link to the port that listens for the service, or did a moment ago. If there is none, to
// ourselves: the connection manager of the device that sends the request refuses it.
OutLink* ShmPort::route_to_listener(uint64_t service) noexcept {
  for (const Gid& name : {shm::Names::of_service(service), shm::Names::of_closed(service)}) {
    OutLink* const link = names_.listens_at(name) ? nullptr : route_to(name, {});
    if (link == nullptr) break;
    const bool rests = !link->ring && shm::monotonic_ns() < link->retry_at_ns;
    if (!(rests ? link->refused : connect(*link) == shm::Connect::refused)) return link;
  }
  return route_to(names_.own(), names_.gid(), names_.slot());
}

// True: the frame is taken, false: try again later.
bool ShmPort::send_one(OutLink& link, const transport::TxFrame& frame) noexcept {
  if (!link.ring) return send_down(link, frame);
  const bool by_reference =
      link.can_pull && frame.payload_length >= capabilities_.reference_threshold &&
      link.ring->control().refuses_references.load(std::memory_order_relaxed) == 0;
  switch (link.ring->push(frame, by_reference)) {
    case shm::RingProducer::Push::taken:
      link.unannounced = true;
      link.blocked = false;
      return true;
    case shm::RingProducer::Push::full:
      return gives_up(link, link.ring->consumed(), counts_.tx_stalled);
    case shm::RingProducer::Push::unreadable:
      ++counts_.tx_unreadable;
      return true;
    case shm::RingProducer::Push::too_long:
      ++counts_.tx_too_long;
      return true;
    case shm::RingProducer::Push::corrupt:
      ++counts_.rx_corrupt;
      take_down(link, 100 * kMillisecond);
      break;
  }
  ++counts_.tx_no_peer;
  return true;
}

// There is no connection: makes one if it is time, else the frame is lost as on a wire.
bool ShmPort::send_down(OutLink& link, const transport::TxFrame& frame) noexcept {
  if (shm::monotonic_ns() < link.retry_at_ns) {
    if (link.blocked) return gives_up(link, 0, counts_.tx_stalled);
  } else {
    switch (connect(link)) {
      case shm::Connect::ok:
        link.blocked = false;
        return send_one(link, frame);
      case shm::Connect::busy:
        return gives_up(link, 0, counts_.tx_stalled);
      case shm::Connect::refused:
        link.blocked = false;
        break;
    }
  }
  // It was there before: what is sent now ends as well.
  if (link.refused && link.pid != 0 && link.end == OutLink::End::no) {
    link.end = OutLink::End::closed;
    ends_ = true;
    calls_left_ = 0;
  }
  ++counts_.tx_no_peer;
  return true;
}

// A process that is stopped keeps its rings and its sockets.
std::optional<uint64_t> ShmPort::unread(const Gid& destination, QpNum number,
                                        bool in_memory) noexcept {
  if (in_memory != names_.beside()) return std::nullopt;
  for (auto& [gid, link] : out_) {
    const bool its =
        link->address == destination && (link->slot == 0 || link->slot == number.value >> 16);
    if (!its || !link->ring || !link->ring->refresh()) continue;
    if (link->ring->outstanding() != 0) return link->ring->consumed();
  }
  return std::nullopt;
}

void ShmPort::take_down(OutLink& link, int64_t retry_after_ns) noexcept {
  link.ring.reset();
  link.mapping = {};
  events_.remove(link.socket);
  events_.remove(link.process.descriptor);
  link.unannounced = link.blocked = link.can_pull = link.barrier = false;
  link.retry_at_ns = shm::monotonic_ns() + retry_after_ns;
  ++counts_.peers_lost;
}

// References that no peer claimed are taken back at once; a claimed one is being pulled right now,
// so we wait for it. A peer that does not finish (stopped, hostile) is cut; it only ever read.
//= threat:A36
void ShmPort::detach(void* base, size_t size) noexcept {
  const auto* memory = static_cast<const std::byte*>(base);
  for (auto& [gid, link] : out_) {
    if (!link->ring) continue;
    bool cut = !link->ring->refresh();
    const uint64_t wait_for = cut ? 0 : link->ring->revoke(memory, size);
    if (link->is_self) continue;  // our own frames are released by the caller
    const int64_t deadline = shm::monotonic_ns() + kClaimLimit;
    while (!cut && link->ring->consumed() < wait_for) {
      pollfd peer{link->socket.fd(), 0, 0};
      cut = poll(&peer, 1, 0) != 0 || shm::monotonic_ns() > deadline || !link->ring->refresh();
      sched_yield();
    }
    if (!cut) continue;
    ++counts_.detach_cuts;
    take_down(*link, kMillisecond);
  }
}

}  // namespace weft::port
