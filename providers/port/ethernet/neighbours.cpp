// SPDX-License-Identifier: BSD-3-Clause
// See neighbours.hpp.
#include "providers/port/ethernet/neighbours.hpp"

#include <algorithm>
#include <new>

namespace weft::port::ethernet {
namespace {

constexpr Duration kAskAgain = Duration::from_ms(10);
constexpr Duration kGiveUpFor = Duration::from_s(1);
constexpr uint32_t kMostAsked = 5;
// One that is known and used: RFC 4861 10, REACHABLE_TIME and RETRANS_TIMER.
constexpr Duration kTrusted = Duration::from_s(30);
constexpr Duration kConfirmAgain = Duration::from_s(1);
constexpr uint32_t kMostDirect = 2;  // questions to it alone, before all are asked

bool same_prefix(const Gid& a, const Gid& b, unsigned bits) noexcept {
  const unsigned begin = a.is_ipv4() ? 96 : 0;
  for (unsigned bit = begin; bit < begin + bits; ++bit) {
    const unsigned mask = 0x80u >> (bit % 8);
    if (((a.bytes[bit / 8] ^ b.bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace

Neighbours::Entry* Neighbours::look_up(const Gid& address) noexcept {
  const auto found = entries_.find(address);
  return found != entries_.end() ? &found->second : nullptr;
}

Neighbours::Entry* Neighbours::make(const Gid& address) noexcept {
  if (Entry* const entry = look_up(address)) return entry;
  if (entries_.size() == kMost && !forget_one()) return nullptr;
  try {
    return &entries_[address];
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Of those that never answered, which somebody may have named to fill the table.
bool Neighbours::forget_one() noexcept {
  const auto silent = std::find_if(entries_.begin(), entries_.end(),
                                   [](const auto& entry) { return !entry.second.known; });
  if (silent == entries_.end()) return false;
  entries_.erase(silent);
  return true;
}

const Gid& Neighbours::hop_to(const Gid& address) const noexcept {
  if (self_.gateway == Gid{} || same_prefix(address, self_.address, self_.prefix)) return address;
  return self_.gateway;
}

void Neighbours::add(const Gid& address, const wire::MacAddress& mac) {
  if (Entry* const entry = make(address)) {
    *entry = {.mac = mac, .known = true, .fixed = true, .ask_again = Instant::never()};
  }
}

const wire::MacAddress* Neighbours::find(const Gid& address) noexcept {
  const auto found = entries_.find(hop_to(address));
  if (found == entries_.end() || !found->second.known) return nullptr;
  if (now_ < found->second.ask_again) [[likely]]
    return &found->second.mac;
  return confirm(found->first, found->second);
}

// Where it was is where it is until somebody says otherwise, or it does not answer any more.
const wire::MacAddress* Neighbours::confirm(const Gid& hop, Entry& entry) noexcept {
  if (entry.asked == kMostAsked) {
    entry = {};
    return nullptr;
  }
  ++entry.asked;
  entry.ask_again = now_ + kConfirmAgain;
  // Linux leaves its MAC out of the answer to a solicitation that was not sent to a group.
  const bool direct = hop.is_ipv4() && entry.asked <= kMostDirect;
  ask_for(hop, direct ? entry.mac : wire::MacAddress{});
  return &entry.mac;
}

Neighbours::Asked Neighbours::ask(const Gid& address, Instant now) noexcept {
  const Gid& hop = hop_to(address);
  Entry* const entry = make(hop);
  if (entry == nullptr) return Asked::absent;
  if (entry->asked != 0 && now < entry->ask_again)
    return entry->asked > kMostAsked ? Asked::absent : Asked::waiting;
  if (entry->asked > kMostAsked) entry->asked = 0;  // long ago: begin anew
  ++entry->asked;
  entry->ask_again = now + (entry->asked > kMostAsked ? kGiveUpFor : kAskAgain);
  ask_for(hop, {});
  return Asked::waiting;
}

void Neighbours::ask_for(const Gid& hop, const wire::MacAddress& to) noexcept {
  say({.is_question = true,
       .sender_mac = self_.mac,
       .sender = self_.address,
       .target = hop,
       .vlan = self_.vlan},
      to);
}

// RFC 826: whatever one says of itself that is known, to whomever it is, moves it: a gratuitous ARP
// is such a message. RFC 4861 7.2.3 and 7.2.5: a solicitation does so only where it is for us, and
// an advertisement that does not override moves nobody whose place is known.
bool Neighbours::believes(const wire::NeighbourMessage& message,
                          const Entry& entry) const noexcept {
  const bool for_us = message.target == self_.address;
  const bool for_all = !message.is_question && message.target.is_multicast();
  if (entry.fixed || !(message.sender.is_ipv4() || for_us || for_all)) return false;
  return message.overrides || !entry.known || entry.mac == message.sender_mac;
}

bool Neighbours::hear(const std::byte* frame, uint32_t length, bool answers) noexcept {
  wire::NeighbourMessage message;
  if (!wire::parse_neighbour(frame, length, message)) return false;
  if (message.vlan != self_.vlan) return true;
  // Who asks for us will be answered, and so is remembered; of others there is news only where they
  // are known or asked for. Questions fill half of the table at most, however many there are.
  const bool asks_us = message.is_question && message.target == self_.address;
  const bool learns = asks_us && entries_.size() < kMost / 2;
  Entry* const entry = learns ? make(message.sender) : look_up(message.sender);
  if (entry != nullptr && believes(message, *entry))
    *entry = {.mac = message.sender_mac, .known = true, .ask_again = now_ + kTrusted};
  if (asks_us && answers)
    say({.is_question = false,
         .sender_mac = self_.mac,
         .sender = self_.address,
         .target = message.sender,
         .vlan = self_.vlan},
        message.sender_mac);
  return true;
}

void Neighbours::say(const wire::NeighbourMessage& message, const wire::MacAddress& to) noexcept {
  if (waiting_.size() == kMostWaiting) return;
  try {
    waiting_.emplace_back();
  } catch (const std::bad_alloc&) {
    return;
  }
  waiting_.back().length = wire::emit_neighbour(waiting_.back().bytes.data(), message, to);
}

std::span<const std::byte> Neighbours::take() noexcept {
  if (waiting_.empty()) return {};
  taken_ = waiting_.front();
  waiting_.pop_front();
  return {taken_.bytes.data(), taken_.length};
}

}  // namespace weft::port::ethernet
