// SPDX-License-Identifier: BSD-3-Clause
// Endpoints with several addresses (rails). An endpoint is known by its first address; the others
// are told to the peer (SRD.md, rails). A way is a pair of addresses, ours and the peer's. The
// first of both is always there; another one is asked for, and carries packets when the answer has
// come on it. Exists only for peers of which one side has several addresses.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/srd/state/path_set.hpp"
#include "lib/wire/srd_headers.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::srd {

// Which of our addresses, and which of the peer's; 0: the first.
struct Way {
  uint8_t local = 0, remote = 0;
  bool operator==(const Way&) const = default;
};

class Rails {
 public:
  struct Candidate {
    Way way;
    uint8_t asks = 0;
    Instant ask_at;
  };

  // The peer's further addresses, in its order; the first of them is `remote` 1.
  std::span<const Gid> further() const { return {further_.data(), further_count_}; }
  bool tells(std::span<const Gid> list) const;
  // They are these from now on, at most as many as a packet can name. Ways that lead there must be
  // forgotten.
  void learn(std::span<const Gid> list);

  // The ways that carry packets: [0, joined). The others are asked for.
  uint32_t joined() const { return joined_; }
  Way way(uint32_t index) const { return ways_[index].way; }
  std::span<Candidate> candidates() { return {ways_.begin() + joined_, ways_.begin() + count_}; }
  bool leads_beyond_first() const;
  // False: it is no candidate.
  bool join(Way way);
  // The one that joined last is a candidate again.
  void part() { --joined_; }
  // Only the first way is left; then all others that `locals` addresses of ours allow are asked
  // for, those that share no address first.
  void restart(uint32_t locals, Instant now);
  // The same, but what has joined stays.
  void plan(uint32_t locals, Instant now);

  uint32_t named = 0;       // what the peer calls us, in the engine's table of further addresses
  bool incomplete = false;  // some of its addresses are not in that

 private:
  std::array<Gid, wire::kSrdMostRails> further_;
  std::array<Candidate, kMostWays> ways_;
  uint8_t further_count_ = 0;
  uint8_t joined_ = 1;
  uint8_t count_ = 1;
};

// A further address of a peer, with a secret that only packets between it and us name: ours for it
// in what it sends, its for us in what it answers. Who does not know it cannot speak for the peer,
// and who claims the address of another one gets nothing of what that one sends.
struct Alias {
  Gid address;
  uint32_t block = 0;
  uint32_t secret = 0;
  bool operator==(const Alias&) const = default;
};

struct AliasHash {
  uint64_t seed = 0;  // drawn: nobody can choose addresses that collide
  size_t operator()(const Alias& a) const noexcept {
    uint64_t words[2];
    std::memcpy(words, a.address.bytes.data(), sizeof words);
    uint64_t mixed = (words[0] ^ seed) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 29 ^ words[1]) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 32 ^ (uint64_t{a.secret} << 8 | a.block)) * 0x94D049BB133111EBu;
    return static_cast<size_t>(mixed ^ mixed >> 31);
  }
};

}  // namespace weft::srd
