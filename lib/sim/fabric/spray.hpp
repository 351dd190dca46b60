// SPDX-License-Identifier: BSD-3-Clause
// Spraying: every switch hashes the flow's number, the packet's entropy value and a salt of its own
// over its equal-cost uplinks; there is one downlink. And the SACK blocks of acknowledgements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/sim/fabric/block_pool.hpp"
#include "lib/sim/fabric/packet.hpp"
#include "lib/sim/fabric/topology.hpp"

namespace weft::sim::fabric {

// Packet::entropy: the value in the lower bits, and flags of a sprayed packet.
inline constexpr uint32_t kEntropyBits = 0xFFFF;
inline constexpr uint32_t kAckRequest = 1u << 16;      // data
inline constexpr uint32_t kRetransmission = 1u << 17;  // data
inline constexpr uint32_t kLastHop = 1u << 18;         // trimmed, nak: by the receiver's own link

class SprayRoutes {
 public:
  SprayRoutes(const Topology& topology, uint64_t seed);

  void resize(size_t flows) { ends_.resize(flows); }
  void set(uint32_t flow, uint32_t src, uint32_t dst);
  // Uses the paths of `live` from now on, which has the same nodes and links.
  void reroute(const Topology& live);
  // The egress port of `packet` at `node`, a switch; kNone if there is no route.
  uint32_t next(uint32_t node, const Packet& packet) const noexcept;

 private:
  struct End {
    uint32_t leaf;  // the host's switch
    uint32_t port;  // of that switch, towards the host
    uint32_t row;   // of next_
  };
  struct Ends {
    End src;
    End dst;
  };
  End end_of(uint32_t host) const;
  void find_leaves();
  uint32_t entry_for(std::span<const uint32_t> ports);

  static constexpr uint32_t kOne = 1u << 31;  // the only port itself, not where a list begins

  const Topology* topology_;
  std::vector<uint64_t> salts_;  // by node
  std::vector<uint32_t> switches_;
  std::vector<uint32_t> leaf_rows_;  // by node: where the row of next_ begins
  std::vector<uint32_t> some_host_;  // by leaf
  // For each leaf and switch: the only port, or a list (its length, then the ports). Small, so that
  // it stays in the cache: a switch has one list for all its uplinks.
  std::vector<uint32_t> column_;  // by node: its place in a row
  std::vector<uint32_t> next_;
  std::vector<uint32_t> lists_;
  std::vector<Ends> ends_;  // by flow
};

// What an acknowledgement carries beside Packet::number, the cumulative count of packets.
struct AckBlock {
  uint64_t received;  // bytes on the wire, of the whole flow
  uint64_t arrived;   // SACK: a bit per packet from `base` on
  uint32_t base;
  uint32_t answers;    // the packet that it answers
  bool retransmitted;  // that packet was a retransmission
};

struct AckPool : BlockPool<AckBlock> {
  static constexpr uint32_t kNoPacket = UINT32_MAX;  // AckBlock::answers in response to a probe
};

// State of a fabric for sprayed packets beside its ports.
struct Spray {
  SprayRoutes routes;
  AckPool acks;
};

}  // namespace weft::sim::fabric
