// SPDX-License-Identifier: BSD-3-Clause
// Endpoints with several addresses (rails). An endpoint is identified by its first address, the
// primary; it announces the others to its peer (SRD.md, rails). A route is a pair of addresses, one
// of ours and one of the peer's. The route between the primaries always exists; another one is
// requested, and carries packets after the response has arrived on it. A Rails object exists only
// for peers of which one side has several addresses.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/base/check.hpp"
#include "lib/srd/state/path_set.hpp"
#include "lib/wire/srd_headers.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::srd {

// Index of our address and of the peer's; 0: the primary.
struct Route {
  uint8_t local = 0, remote = 0;
  bool operator==(const Route&) const = default;
};

class Rails {
 public:
  struct Candidate {
    Route route;
    uint8_t requests = 0;  // sent
    Instant request_at;    // the next one
  };

  // The peer's further addresses, in its order; the first of them is `remote` 1.
  std::span<const Gid> further() const { return {further_.data(), further_count_}; }
  bool has_addresses(std::span<const Gid> list) const;
  // Replaces them, by as many as a packet can name. The caller drops routes to the old ones.
  void set_addresses(std::span<const Gid> list);

  // The routes that carry packets have indexes [0, joined()); the others are requested.
  uint32_t joined() const { return joined_; }
  Route route(uint32_t index) const {
    WEFT_DCHECK(index < joined_);
    return routes_[index].route;
  }
  std::span<Candidate> candidates() {
    return {routes_.begin() + joined_, routes_.begin() + count_};
  }
  // A joined route leads to a further address of the peer.
  bool uses_further_address() const;
  // False: it is no candidate.
  bool join(Route route);
  // The route that joined last is a candidate again.
  void undo_join() {
    WEFT_DCHECK(joined_ > 1);
    --joined_;
  }
  // Drops all routes but the first; then as plan().
  void restart(uint32_t locals, Instant now);
  // Candidates are all routes from `locals` addresses of ours that have not joined, first those
  // that share no address.
  void plan(uint32_t locals, Instant now);

  // With which its aliases were entered: ours and the peer's.
  std::array<uint64_t, 2> alias_incarnations{};
  bool incomplete = false;  // some addresses are missing there, for want of memory

 private:
  std::array<Gid, wire::kSrdMostRails> further_;
  std::array<Candidate, kMostRoutes> routes_;
  uint8_t further_count_ = 0;
  uint8_t joined_ = 1;
  uint8_t count_ = 1;
};

// A further address of a peer, with an incarnation that only packets between that peer and us name:
// ours for the peer in what it sends, the peer's for us in what it answers. A sender that does not
// know it cannot send in the peer's name, and claiming an address of another endpoint diverts
// nothing from it.
struct Alias {
  Gid address;
  uint32_t qpn_prefix = 0;
  uint64_t incarnation = 0;
  bool operator==(const Alias&) const = default;
};

struct AliasHash {
  uint64_t seed = 0;  // random, so that addresses that collide cannot be chosen
  size_t operator()(const Alias& a) const noexcept {
    uint64_t words[2];
    std::memcpy(words, a.address.bytes.data(), sizeof words);
    uint64_t mixed = (words[0] ^ seed) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 29 ^ words[1]) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 32 ^ (a.incarnation << 8 ^ a.qpn_prefix)) * 0x94D049BB133111EBu;
    return static_cast<size_t>(mixed ^ mixed >> 31);
  }
};

}  // namespace weft::srd
