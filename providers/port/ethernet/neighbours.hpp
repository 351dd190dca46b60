// SPDX-License-Identifier: BSD-3-Clause
// Who is where on an Ethernet that has no kernel behind it: answers questions for our address, asks
// for the addresses that we send to, remembers; and asks again whom it has not heard of for a
// while, for an address moves to another MAC when a gateway fails over. No I/O: frames to send are
// fetched with take(), and what time it is comes with tick().
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
    uint8_t prefix = 0;  // bits of the address that the link shares; 0 = everybody is on the link
    Gid gateway;         // for the others; all zero = none
  };
  explicit Neighbours(const Self& self) : self_(self) {}

  // A neighbour that is never asked for, and about whom nobody is believed.
  void add(const Gid& address, const wire::MacAddress& mac);

  // The time that everything here goes by until the next call: now and then, a few times a second
  // is enough. Without it what is known once is never asked for again.
  void tick(Instant now) noexcept { now_ = now; }

  // Where frames to `address` go; nullptr: not known, ask(). May leave a question for take().
  const wire::MacAddress* find(const Gid& address) noexcept;

  enum class Asked : uint8_t {
    waiting,  // try again soon
    absent,   // asked several times without an answer: lose the frame
  };
  // Asks who has an address that find() does not know, unless it was asked a moment ago.
  Asked ask(const Gid& address, Instant now) noexcept;

  // A frame that is no RoCE. True if it was a message between neighbours. Without `answers` it is
  // only learned from: another has answered already.
  bool hear(const std::byte* frame, uint32_t length, bool answers = true) noexcept;

  // The next frame to send, valid until the next call; empty = none.
  std::span<const std::byte> take() noexcept;

  const Self& self() const noexcept { return self_; }

 private:
  static constexpr size_t kMost = 4096;       // entries; a flood of questions makes no more
  static constexpr size_t kMostWaiting = 64;  // frames to send

  struct Entry {
    wire::MacAddress mac{};
    bool known = false;
    bool fixed = false;  // by add()
    uint32_t asked = 0;  // times without an answer
    Instant ask_again;   // of one that is known: when it is used then or later
  };
  struct Waiting {
    std::array<std::byte, wire::kMaxNeighbourLength> bytes{};
    uint32_t length = 0;
  };

  Entry* look_up(const Gid& address) noexcept;
  bool forget_one() noexcept;
  Entry* make(const Gid& address) noexcept;
  const Gid& hop_to(const Gid& address) const noexcept;
  const wire::MacAddress* confirm(const Gid& hop, Entry& entry) noexcept;
  bool believes(const wire::NeighbourMessage& message, const Entry& entry) const noexcept;
  void ask_for(const Gid& hop, const wire::MacAddress& to) noexcept;
  void say(const wire::NeighbourMessage& message, const wire::MacAddress& to) noexcept;

  Self self_;
  Instant now_;
  std::unordered_map<Gid, Entry, base::GidHash> entries_;
  std::deque<Waiting> waiting_;
  Waiting taken_;
};

}  // namespace weft::port::ethernet
