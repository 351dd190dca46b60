// SPDX-License-Identifier: BSD-3-Clause
// Neighbour table of ARP (RFC 826) and IPv6 Neighbour Discovery (RFC 4861) for a port without a
// kernel behind it: answers requests for our address, resolves the next hops that we send to, and
// confirms entries that are used and have not been confirmed for a while, since an address moves to
// another MAC when a gateway fails over. No I/O: the caller sends next_message() and gives the time
// with update_now().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>

#include "lib/base/gid_hash.hpp"
#include "lib/wire/neighbour.hpp"
#include "weft/units.hpp"

namespace weft::port::ethernet {

class Neighbours {
 public:
  struct Self {
    wire::MacAddress mac{};
    Gid address;
    uint16_t vlan = 0;
    uint8_t prefix = 0;  // prefix length of the link; 0: all addresses are on the link
    Gid gateway;         // next hop for other addresses; all zero: none
  };
  explicit Neighbours(const Self& self) : self_(self) {}

  // A permanent entry: never requested, and not changed by messages.
  void add(const Gid& address, const wire::MacAddress& mac);

  // Sets the time that find() and on_message() use; a few calls a second are enough. Without calls,
  // entries are never confirmed.
  void update_now(Instant now) noexcept { now_ = now; }

  // The MAC address of the next hop to `address`; nullptr: unknown, call resolve(). May queue a
  // request.
  const wire::MacAddress* find(const Gid& address) noexcept;

  enum class Resolution : uint8_t {
    waiting,      // try again soon
    unreachable,  // no answer to several requests: drop the frame
  };
  // Requests the next hop of an address that find() does not know, unless one was sent less than
  // the retransmission interval ago.
  Resolution resolve(const Gid& address, Instant now) noexcept;

  // Handles a frame that is not RoCE. True if it was ARP or Neighbour Discovery. Without
  // `may_answer` it only updates entries: another engine has answered.
  bool on_message(const std::byte* frame, uint32_t length, bool may_answer = true) noexcept;

  // The next frame to send, valid until the next call; empty: none.
  std::span<const std::byte> next_message() noexcept;

  const Self& self() const noexcept { return self_; }

 private:
  static constexpr size_t kMaxEntries = 4096;  // a flood of requests adds no more
  static constexpr size_t kMaxQueued = 64;     // frames to send

  struct Entry {
    wire::MacAddress mac{};
    bool known = false;
    bool permanent = false;  // by add()
    uint32_t requests = 0;   // since the last answer
    Instant next_request;    // a known entry is confirmed if it is used then or later
  };
  struct Waiting {
    std::array<std::byte, wire::kMaxNeighbourLength> bytes{};
    uint32_t length = 0;
  };

  Entry* find_entry(const Gid& address) noexcept;
  bool evict_unanswered() noexcept;
  Entry* find_or_add(const Gid& address) noexcept;
  const Gid& next_hop(const Gid& address) const noexcept;
  const wire::MacAddress* confirm(const Gid& hop, Entry& entry) noexcept;
  bool accepts(const wire::NeighbourMessage& message, const Entry& entry) const noexcept;
  void send_request(const Gid& hop, const wire::MacAddress& to) noexcept;
  void queue_message(const wire::NeighbourMessage& message, const wire::MacAddress& to) noexcept;

  Self self_;
  Instant now_;
  std::unordered_map<Gid, Entry, base::GidHash> entries_;
  std::deque<Waiting> queued_;
  Waiting current_;
};

}  // namespace weft::port::ethernet
