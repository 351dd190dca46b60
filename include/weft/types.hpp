// SPDX-License-Identifier: BSD-3-Clause
// Basic types of RDMA: numbers that must not be mixed up, flags, states and addresses. All are
// trivially copyable values in host byte order.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft {

// A queue pair number, 24 bits. A Gid and a QpNum identify a queue pair in a network.
struct QpNum {
  uint32_t value = 0;
  constexpr auto operator<=>(const QpNum&) const = default;
};

// Local key: names a memory region in a scatter/gather entry of this process.
struct LKey {
  uint32_t value = 0;
  constexpr bool operator==(const LKey&) const = default;
};

// Remote key: names a memory region of the peer. A random number, so that it cannot be guessed.
struct RKey {
  uint32_t value = 0;
  constexpr bool operator==(const RKey&) const = default;
};

// Packet sequence number: 24 bits, circular (IBTA 9.7.2). It has no order of its own.
struct Psn {
  uint32_t value = 0;
  constexpr bool operator==(const Psn&) const = default;
  static constexpr uint32_t kMask = 0xFFFFFF;
  constexpr Psn operator+(uint32_t n) const { return {(value + n) & kMask}; }
  // Signed distance from `o` to this one, in [-2^23, 2^23). //= roce:C-PSN-17
  constexpr int32_t operator-(Psn o) const {
    return static_cast<int32_t>((value - o.value) << 8) >> 8;
  }
};

// A 16-byte address in network byte order: IPv6, IPv4 as ::ffff:a.b.c.d, or an address of the ports
// `shm` and `sim`.
struct Gid {
  std::array<uint8_t, 16> bytes{};
  constexpr auto operator<=>(const Gid&) const = default;
  constexpr bool operator==(const Gid& other) const {
    using Halves = std::array<uint64_t, 2>;  // in registers: no call, nothing over the stack
    const auto [a, b] = std::bit_cast<Halves>(bytes);
    const auto [c, d] = std::bit_cast<Halves>(other.bytes);
    return ((a ^ c) | (b ^ d)) == 0;
  }
  // Whether it is an IPv4-mapped address.
  constexpr bool is_ipv4() const {
    for (size_t i = 0; i < 10; ++i)
      if (bytes[i] != 0) return false;
    return bytes[10] == 0xFF && bytes[11] == 0xFF;
  }
  // 224/4 or ff00::/8: the address of a multicast group.
  constexpr bool is_multicast() const {
    return is_ipv4() ? (bytes[12] & 0xF0) == 0xE0 : bytes[0] == 0xFF;
  }
  // The GID of a.b.c.d.
  static constexpr Gid from_ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d}};
  }
};
// "127.0.0.2" for IPv4, otherwise IPv6 notation.
std::string to_string(const Gid& gid);
// Parses the notations that to_string writes. Error: invalid_argument.
Result<Gid> parse_gid(std::string_view text);

// Flag sets are enum classes with these operators.
template <class E>
struct is_flag_set {
  static constexpr bool value = false;
};
template <class E>
concept FlagSet = is_flag_set<E>::value;
template <FlagSet E>
constexpr E operator|(E a, E b) {
  return static_cast<E>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
template <FlagSet E>
constexpr E operator&(E a, E b) {
  return static_cast<E>(static_cast<uint32_t>(a) & static_cast<uint32_t>(b));
}
// True when every flag of `wanted` is in `set`.
template <FlagSet E>
constexpr bool has(E set, E wanted) {
  return (set & wanted) == wanted;
}

// Access rights of a memory region (at registration) or of a queue pair (attribute of INIT).
// remote_write and remote_atomic need local_write (IBTA 10.6.3.3, //= roce:C-OPS-89). zero_based
// and on_demand are no rights but properties of a region (verbs: IBV_ACCESS_ZERO_BASED,
// IBV_ACCESS_ON_DEMAND).
enum class Access : uint32_t {
  none = 0,
  local_write = 1,
  remote_write = 2,
  remote_read = 4,
  remote_atomic = 8,
  all = 15,
  window_bind = 16,        // of a region: memory windows may be bound to it
  zero_based = 32,         // of a region or type 2 window: addresses in requests begin at 0
  flush_global = 64,       // FLUSH with Flush::visible
  flush_persistent = 128,  // FLUSH with Flush::persistent: only for shared mappings of files
  on_demand = 256          // of a region: its memory may be mapped and unmapped later (mr.hpp)
};
template <>
struct is_flag_set<Access> {
  static constexpr bool value = true;
};

// Transport services. srd: scalable reliable datagram, which is reliable, connectionless and
// unordered; wr.hpp lists its guarantees. XRC is RC with separate requester (xrc_initiator) and
// responder (xrc_target): srq.hpp.
enum class QpType : uint8_t { rc, uc, ud, srd, xrc_initiator, xrc_target };
// True for both types of XRC queue pairs.
constexpr bool is_xrc(QpType type) noexcept { return type >= QpType::xrc_initiator; }
// States of a queue pair (IBTA 10.3.1).
enum class QpState : uint8_t { reset, init, rtr, rts, sqd, sqe, err };
// Names in lower case, as spelled above.
std::string_view name(QpType type) noexcept;
std::string_view name(QpState state) noexcept;

// The destination of the packets of a queue pair and their marking (IBTA 11.2.2.1).
struct AddressVector {
  Gid destination{};
  uint32_t flow_label = 0;    // selects the UDP source port; 0 = derived from the QPN
  uint8_t hop_limit = 64;     // IPv4: TTL
  uint8_t traffic_class = 0;  // DSCP << 2 | ECN; classes of srd: lib/wire/SRD.md
  // The UDP source port, by which switches choose a path; 0 = that of the flow label. A port that
  // sends through sockets (udp) has its own. Provider roce.
  uint16_t source_port = 0;
  // Packets of RC, UC and UD to this destination leave no faster (RateLimit); 0 = as fast as they
  // can. Providers roce, and ibverbs where the device has static rates.
  Rate static_rate{};
};

}  // namespace weft
