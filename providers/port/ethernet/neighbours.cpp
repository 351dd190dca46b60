// SPDX-License-Identifier: BSD-3-Clause
// See neighbours.hpp.
#include "providers/port/ethernet/neighbours.hpp"

#include <algorithm>
#include <new>

namespace weft::port::ethernet {
namespace {

constexpr Duration kRetransInterval = Duration::from_ms(10);
constexpr Duration kUnreachableFor = Duration::from_s(1);
constexpr uint32_t kMaxRequests = 5;
// Of an entry that is known and used: RFC 4861 10, REACHABLE_TIME and RETRANS_TIMER.
constexpr Duration kReachableTime = Duration::from_s(30);
constexpr Duration kConfirmInterval = Duration::from_s(1);
constexpr uint32_t kMaxUnicastRequests = 2;  // before requests are broadcast

bool same_prefix(const Gid& a, const Gid& b, unsigned bits) noexcept {
  const unsigned begin = a.is_ipv4() ? 96 : 0;
  for (unsigned bit = begin; bit < begin + bits; ++bit) {
    const unsigned mask = 0x80u >> (bit % 8);
    if (((a.bytes[bit / 8] ^ b.bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace

Neighbours::Entry* Neighbours::find_entry(const Gid& address) noexcept {
  const auto found = entries_.find(address);
  return found != entries_.end() ? &found->second : nullptr;
}

Neighbours::Entry* Neighbours::find_or_add(const Gid& address) noexcept {
  if (Entry* const entry = find_entry(address)) return entry;
  if (entries_.size() == kMaxEntries && !evict_unanswered()) return nullptr;
  try {
    return &entries_[address];
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Evicts an entry that was never answered: a peer may have caused it to fill the table.
bool Neighbours::evict_unanswered() noexcept {
  const auto silent = std::find_if(entries_.begin(), entries_.end(),
                                   [](const auto& entry) { return !entry.second.known; });
  if (silent == entries_.end()) return false;
  entries_.erase(silent);
  return true;
}

const Gid& Neighbours::next_hop(const Gid& address) const noexcept {
  if (self_.gateway == Gid{} || same_prefix(address, self_.address, self_.prefix)) return address;
  return self_.gateway;
}

void Neighbours::add(const Gid& address, const wire::MacAddress& mac) {
  if (Entry* const entry = find_or_add(address)) {
    *entry = {.mac = mac, .known = true, .permanent = true, .next_request = Instant::never()};
  }
}

const wire::MacAddress* Neighbours::find(const Gid& address) noexcept {
  const auto found = entries_.find(next_hop(address));
  if (found == entries_.end() || !found->second.known) return nullptr;
  if (now_ < found->second.next_request) [[likely]]
    return &found->second.mac;
  return confirm(found->first, found->second);
}

// The entry stays in use until a message changes it or kMaxRequests stay unanswered.
const wire::MacAddress* Neighbours::confirm(const Gid& hop, Entry& entry) noexcept {
  if (entry.requests == kMaxRequests) {
    entry = {};
    return nullptr;
  }
  ++entry.requests;
  entry.next_request = now_ + kConfirmInterval;
  // Linux leaves its MAC out of the answer to a solicitation that was not sent to a group.
  const bool direct = hop.is_ipv4() && entry.requests <= kMaxUnicastRequests;
  send_request(hop, direct ? entry.mac : wire::MacAddress{});
  return &entry.mac;
}

Neighbours::Resolution Neighbours::resolve(const Gid& address, Instant now) noexcept {
  const Gid& hop = next_hop(address);
  Entry* const entry = find_or_add(hop);
  if (entry == nullptr) return Resolution::unreachable;
  if (entry->requests != 0 && now < entry->next_request)
    return entry->requests > kMaxRequests ? Resolution::unreachable : Resolution::waiting;
  if (entry->requests > kMaxRequests) entry->requests = 0;
  ++entry->requests;
  entry->next_request = now + (entry->requests > kMaxRequests ? kUnreachableFor : kRetransInterval);
  send_request(hop, {});
  return Resolution::waiting;
}

void Neighbours::send_request(const Gid& hop, const wire::MacAddress& to) noexcept {
  queue_message({.is_question = true,
                 .sender_mac = self_.mac,
                 .sender = self_.address,
                 .target = hop,
                 .vlan = self_.vlan},
                to);
}

// RFC 826: any ARP message updates the entry of its sender, whatever its target; a gratuitous ARP
// is one. RFC 4861 7.2.3 and 7.2.5: a solicitation does so only if it is for us, and an
// advertisement without the override flag does not change a known address.
bool Neighbours::accepts(const wire::NeighbourMessage& message, const Entry& entry) const noexcept {
  const bool for_us = message.target == self_.address;
  const bool for_all = !message.is_question && message.target.is_multicast();
  if (entry.permanent || !(message.sender.is_ipv4() || for_us || for_all)) return false;
  return message.overrides || !entry.known || entry.mac == message.sender_mac;
}

bool Neighbours::on_message(const std::byte* frame, uint32_t length, bool may_answer) noexcept {
  wire::NeighbourMessage message;
  if (!wire::parse_neighbour(frame, length, message)) return false;
  if (message.vlan != self_.vlan) return true;
  // The sender of a request for us gets an entry, since it will be answered; other senders update
  // entries that exist. Requests fill at most half of the table.
  const bool for_us_request = message.is_question && message.target == self_.address;
  const bool adds = for_us_request && entries_.size() < kMaxEntries / 2;
  Entry* const entry = adds ? find_or_add(message.sender) : find_entry(message.sender);
  if (entry != nullptr && accepts(message, *entry))
    *entry = {.mac = message.sender_mac, .known = true, .next_request = now_ + kReachableTime};
  if (for_us_request && may_answer)
    queue_message({.is_question = false,
                   .sender_mac = self_.mac,
                   .sender = self_.address,
                   .target = message.sender,
                   .vlan = self_.vlan},
                  message.sender_mac);
  return true;
}

void Neighbours::queue_message(const wire::NeighbourMessage& message,
                               const wire::MacAddress& to) noexcept {
  if (queued_.size() == kMaxQueued) return;
  try {
    queued_.emplace_back();
  } catch (const std::bad_alloc&) {
    return;
  }
  queued_.back().length = wire::emit_neighbour(queued_.back().bytes.data(), message, to);
}

std::span<const std::byte> Neighbours::next_message() noexcept {
  if (queued_.empty()) return {};
  current_ = queued_.front();
  queued_.pop_front();
  return {current_.bytes.data(), current_.length};
}

}  // namespace weft::port::ethernet
