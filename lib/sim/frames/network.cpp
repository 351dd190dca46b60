// SPDX-License-Identifier: BSD-3-Clause
// A link needs no list of its queue: the departure of a packet is known when it is accepted, so
// only its arrival is an event, and the queue is the time until the link is free.
#include "lib/sim/frames/network.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/srd_headers.hpp"

namespace weft::sim {

namespace {
constexpr uint64_t kBegins = 1;  // in an event's argument, beside the packet's address
static_assert(alignof(Packet) > kBegins);
}  // namespace

Gid host_address(uint32_t index) {
  const uint32_t number = index + 1;
  return {{0xFD, 0x77, 0x65, 0x66, 0x74, 0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(number >> 24),
           static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8),
           static_cast<uint8_t>(number)}};
}

Link::Link(EventQueue& events, PacketPool& pool, Node& end, const LinkOptions& options)
    : events_(events), pool_(pool), end_(end), options_(options) {
  constexpr int64_t kBitPicoseconds = 8'000'000'000'000;
  const int64_t rate = options.rate.bits_per_second;
  ps_per_byte_ = kBitPicoseconds % rate == 0 ? kBitPicoseconds / rate : 0;
  full_after_ = options.rate.time_for(static_cast<int64_t>(options.queue_bytes));
  mark_after_ = options.rate.time_for(static_cast<int64_t>(options.mark_bytes));
}

bool Link::send(Packet* packet) {
  WEFT_DCHECK(packet->length <= Packet::kCapacity);
  const Instant now = events_.now();
  if (now < room_at()) {
    if (!options_.drops) return false;
    ++dropped_;
    pool_.give(packet);
    return true;
  }
  const Duration wait = std::max(free_at_, now) - now;
  longest_wait_ = std::max(longest_wait_, wait);
  const bool capable = packet->ecn == 1 || packet->ecn == 2;
  if (capable && mark_after_.ps != 0 && wait >= mark_after_) packet->ecn = 3;
  const Instant begin = now + wait;
  WEFT_DCHECK(begin >= free_at_);
  free_at_ = begin + time_for(packet->length + kWireOverhead);
  taken_bytes_ += packet->length + kWireOverhead;
  const auto argument = reinterpret_cast<uint64_t>(packet);
  if (options_.stamp != 0) events_.schedule(begin, *this, argument | kBegins);
  events_.schedule(free_at_ + options_.delay, *this, argument);
  return true;
}

void Link::on_event(Instant now, uint64_t argument) {
  auto* const packet = reinterpret_cast<Packet*>(argument & ~kBegins);
  if (argument & kBegins) return stamp(*packet);
  end_.arrive(packet, now);
}

// Start of serialisation: the packets accepted after this one are the queue.
void Link::stamp(Packet& packet) noexcept {
  const uint32_t bytes = packet.length + kWireOverhead;
  const auto rate = static_cast<uint32_t>(options_.rate.bits_per_second / 1'000'000);
  const auto time_ns = static_cast<uint64_t>(events_.now().ps / 1000);
  WEFT_DCHECK(taken_bytes_ >= sent_bytes_ + bytes);
  const auto queue = static_cast<uint32_t>(taken_bytes_ - sent_bytes_ - bytes);
  uint8_t digest = 0;
  if (options_.digest_rtt.ps > 0) {
    const double u = meter_.pass(
        {rate, static_cast<uint32_t>(time_ns), static_cast<uint32_t>(sent_bytes_), queue},
        static_cast<double>(options_.digest_rtt.ps) / 1000);
    digest = congestion::encode_digest(u, 0.5);
  }
  if (packet.path.destination_port == wire::kSrdUdpPort)
    wire::raise_srd_digest(packet.bytes, packet.length, digest);
  if (packet.path.destination_port == wire::kIntUdpPort)
    wire::stamp_int(packet.bytes, packet.length, options_.stamp,
                    {rate, time_ns, sent_bytes_, queue}, digest);
  sent_bytes_ += bytes;
}

Host& Network::add_host(const Gid& address) {
  const auto index = static_cast<uint32_t>(hosts_.size());
  hosts_.push_back(std::make_unique<Host>(*this, index, address));
  return *hosts_.back();
}

Link& Network::connect(Host& a, Host& b, const LinkOptions& options) {
  const size_t first = links_.size();
  for (Host* const from : {&a, &b}) {
    Host& to = from == &a ? b : a;
    links_.push_back(std::make_unique<Link>(events_, pool_, to, options));
    from->routes_.push_back({to.address_, links_.back().get()});
    if (&a == &b) break;
  }
  return *links_[first];
}

Link& Network::uplink(Host& host, Node& node, const LinkOptions& options) {
  links_.push_back(std::make_unique<Link>(events_, pool_, node, options));
  host.uplink_ = links_.back().get();
  return *host.uplink_;
}

Host::Sent Host::send(Packet* packet) {
  if (packet->path.destination.is_multicast()) return send_to_group(packet);
  for (const Route& route : routes_) {
    if (route.destination != packet->path.destination) continue;
    return route.link->send(packet) ? Sent::taken : Sent::wait;
  }
  if (uplink_ == nullptr) return Sent::no_route;
  return uplink_->send(packet) ? Sent::taken : Sent::wait;
}

Host::Sent Host::send_to_group(Packet* packet) {
  PacketPool& pool = network_.pool();
  for (const Route& route : routes_) {
    Packet* const copy = pool.take();
    *copy = *packet;
    copy->next = nullptr;
    if (!route.link->send(copy)) pool.give(copy);
  }
  network_.events().schedule(network_.now(), *this, reinterpret_cast<uint64_t>(packet));
  return Sent::taken;
}

void Host::on_event(Instant now, uint64_t argument) {
  arrive(reinterpret_cast<Packet*>(argument), now);
}

bool Host::wants(const Packet& packet) const noexcept {
  const Gid& to = packet.path.destination;
  return !to.is_multicast() || std::find(groups_.begin(), groups_.end(), to) != groups_.end();
}

void Host::arrive(Packet* packet, Instant now) {
  if (!wants(*packet)) return network_.pool().give(packet);
  network_.note_arrival(index_, *packet);
  const bool first = received_.empty();
  received_.push(packet);
  if (first && handler_ != nullptr) handler_->on_event(now, handler_argument_);
}

}  // namespace weft::sim
