// SPDX-License-Identifier: BSD-3-Clause
// Links are queues without a list: a packet that is taken knows at once when it will have left, so
// only its arrival is an event, and what waits is the time until the link is free.
#include "lib/sim/network.hpp"

#include <algorithm>

namespace weft::sim {

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
  free_at_ = std::max(free_at_, now) + time_for(packet->length + kWireOverhead);
  events_.schedule(free_at_ + options_.delay, *this, reinterpret_cast<uint64_t>(packet));
  return true;
}

void Link::on_event(Instant now, uint64_t argument) {
  end_.arrive(reinterpret_cast<Packet*>(argument), now);
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

Host::Sent Host::send(Packet* packet) {
  for (const Route& route : routes_) {
    if (route.destination != packet->path.destination) continue;
    return route.link->send(packet) ? Sent::taken : Sent::wait;
  }
  return Sent::no_route;
}

void Host::arrive(Packet* packet, Instant now) {
  network_.note_arrival(index_, *packet);
  const bool first = received_.empty();
  received_.push(packet);
  if (first && handler_ != nullptr) handler_->on_event(now, handler_argument_);
}

}  // namespace weft::sim
