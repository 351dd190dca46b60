// SPDX-License-Identifier: BSD-3-Clause
// Management datagrams of the communication manager (IBTA 13.4.2 and 12.6): 256 bytes, a header and
// one of eleven bodies, as plain structs of big-endian integers that are overlaid on the bytes.
// check() says whether a datagram is one of them; after that every field may be read, and none is
// trusted. //= roce:C-CM-106
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "lib/base/bytes.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::cm {

using base::Be16;
using base::Be24;
using base::Be32;
using base::Be64;

inline constexpr size_t kMadLength = 256;
using Mad = std::array<std::byte, kMadLength>;

enum class Attribute : uint16_t {
  req = 0x0010,       // request a connection
  mra = 0x0011,       // message receipt acknowledgement: wait
  rej = 0x0012,       // reject
  rep = 0x0013,       // accept
  rtu = 0x0014,       // ready to use
  dreq = 0x0015,      // request to disconnect
  drep = 0x0016,      // disconnected
  sidr_req = 0x0017,  // request the queue pair of a datagram service
  sidr_rep = 0x0018,  // names the queue pair, or rejects
  lap = 0x0019,       // load an alternate path
  apr = 0x001A,       // the answer to it
};

struct MadHeader {
  uint8_t base_version = 1;
  uint8_t management_class = 0x07;
  uint8_t class_version = 2;
  uint8_t method = 0x03;  // Send
  Be16 status = uint16_t{0};
  Be16 class_specific = uint16_t{0};
  Be64 transaction = uint64_t{0};
  Be16 attribute = uint16_t{0};
  Be16 reserved = uint16_t{0};
  Be32 modifier = 0u;
};
static_assert(sizeof(MadHeader) == 24 && alignof(MadHeader) == 1);

inline constexpr uint16_t kNoLid = 0xFFFF;  // on Ethernet there are none

// A path in a REQ. Bit fields: the top bits come first.
struct PathFields {
  Be16 local_lid = kNoLid;
  Be16 remote_lid = kNoLid;
  Gid local_gid;
  Gid remote_gid;
  Be32 flow_label_rate = 0u;  // flow label:20 reserved:6 rate:6
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t level_local = 0;  // service level:4 subnet local:1 reserved:3
  uint8_t ack_timeout = 0;  // 4.096 us * 2^n, n:5 reserved:3
};
static_assert(sizeof(PathFields) == 44);

enum class Transport : uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };
enum class ExtendedTransport : uint8_t { xrc = 1 };

struct Req {
  static constexpr Attribute kAttribute = Attribute::req;
  Be32 local_id;
  uint8_t reserved1 = 0;
  Be24 vendor_id;  // of ECE: enhanced.hpp
  Be64 service_id;
  Be64 local_guid;
  Be32 reserved2;
  Be32 local_qkey;
  Be24 local_qpn;
  uint8_t responder_resources = 0;
  Be24 local_eecn;
  uint8_t initiator_depth = 0;
  Be24 remote_eecn;
  uint8_t response_transport = 0;  // remote response timeout:5 transport:2 flow control:1
  Be24 starting_psn;
  uint8_t response_retries = 0;  // local response timeout:5 retry count:3
  Be16 pkey;
  uint8_t mtu_rnr = 0;      // path MTU code:4 rdc:1 RNR retry count:3
  uint8_t retries_srq = 0;  // CM retries:4 SRQ:1 extended transport:3
  PathFields primary;
  PathFields alternate;
  std::array<std::byte, 92> private_data{};

  uint8_t remote_response_timeout() const { return response_transport >> 3; }
  Transport transport() const { return static_cast<Transport>(response_transport >> 1 & 3); }
  bool flow_control() const { return response_transport & 1; }
  uint8_t local_response_timeout() const { return response_retries >> 3; }
  uint8_t retry_count() const { return response_retries & 7; }
  uint8_t mtu_code() const { return mtu_rnr >> 4; }
  uint8_t rnr_retry() const { return mtu_rnr & 7; }
  uint8_t cm_retries() const { return retries_srq >> 4; }
  bool shared_receives() const { return retries_srq >> 3 & 1; }
  bool has_alternate_path() const { return alternate.remote_gid != Gid{}; }
  ExtendedTransport extended_transport() const {
    return static_cast<ExtendedTransport>(retries_srq & 7);
  }
};

inline Transport transport_of(QpType type) {
  if (is_xrc(type)) return Transport::extended;
  return type == QpType::uc ? Transport::uc : Transport::rc;
}
// The type of the queue pair that accepts a REQ which RC, UC or XRC requests.
inline QpType type_of_acceptor(const Req& req) {
  if (req.transport() == Transport::extended) return QpType::xrc_target;
  return req.transport() == Transport::uc ? QpType::uc : QpType::rc;
}

struct Mra {
  static constexpr Attribute kAttribute = Attribute::mra;
  Be32 local_id;
  Be32 remote_id;
  uint8_t message = 0;          // which MAD it answers: 0 REQ, 1 REP, 2 LAP; the top two bits
  uint8_t service_timeout = 0;  // the top five bits
  std::array<std::byte, 222> private_data{};
};

// Which MAD a REJ or MRA answers.
enum class Answered : uint8_t { req = 0, rep = 1, other = 2, none = 3 };

struct Rej {
  static constexpr Attribute kAttribute = Attribute::rej;
  Be32 local_id;
  Be32 remote_id;
  uint8_t message = 0;      // the top two bits: Answered
  uint8_t info_length = 0;  // the top seven bits
  Be16 reason;
  std::array<std::byte, 72> info{};
  std::array<std::byte, 148> private_data{};
};

struct Rep {
  static constexpr Attribute kAttribute = Attribute::rep;
  Be32 local_id;
  Be32 remote_id;
  Be32 local_qkey;
  Be24 local_qpn;
  uint8_t vendor_high = 0;
  Be24 local_eecn;
  uint8_t vendor_middle = 0;
  Be24 starting_psn;
  uint8_t vendor_low = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t delay_flow = 0;  // target ack delay:5 failover:2 flow control:1
  uint8_t rnr_srq = 0;     // RNR retry count:3 SRQ:1
  Be64 local_guid;
  std::array<std::byte, 196> private_data{};

  uint32_t vendor_id() const {  // of ECE
    return uint32_t{vendor_high} << 16 | uint32_t{vendor_middle} << 8 | vendor_low;
  }
  uint8_t rnr_retry() const { return rnr_srq >> 5; }
  bool shared_receives() const { return rnr_srq >> 4 & 1; }
  // The queue pair of the acceptor: that of an XRC target is in the EE context number.
  uint32_t qpn_for(Transport transport) const {
    return transport == Transport::extended ? local_eecn : local_qpn;
  }
};

struct Rtu {
  static constexpr Attribute kAttribute = Attribute::rtu;
  Be32 local_id;
  Be32 remote_id;
  std::array<std::byte, 224> private_data{};
};

struct Dreq {
  static constexpr Attribute kAttribute = Attribute::dreq;
  Be32 local_id;
  Be32 remote_id;
  Be24 remote_qpn;
  uint8_t reserved = 0;
  std::array<std::byte, 220> private_data{};
};

struct Drep {
  static constexpr Attribute kAttribute = Attribute::drep;
  Be32 local_id;
  Be32 remote_id;
  std::array<std::byte, 224> private_data{};
};

// Service id resolution for datagrams (IBTA 12.11).
struct SidrReq {
  static constexpr Attribute kAttribute = Attribute::sidr_req;
  Be32 request_id;
  Be16 pkey;
  Be16 reserved;
  Be64 service_id;
  std::array<std::byte, 216> private_data{};
};

enum class SidrStatus : uint8_t {
  valid = 0,
  unsupported = 1,  // no listener
  rejected = 2,
  no_qp = 3,
  redirected = 4,
  version = 5,
};

struct SidrRep {
  static constexpr Attribute kAttribute = Attribute::sidr_rep;
  Be32 request_id;
  uint8_t status = 0;
  uint8_t info_length = 0;
  Be16 vendor1;
  Be24 qpn;
  uint8_t vendor2 = 0;
  Be64 service_id;
  Be32 qkey;
  std::array<std::byte, 72> info{};
  std::array<std::byte, 136> private_data{};
};

// The path that it names is not read: there is no path migration.
struct Lap {
  static constexpr Attribute kAttribute = Attribute::lap;
  Be32 local_id;
  Be32 remote_id;
  std::array<std::byte, 224> rest{};
};

struct Apr {
  static constexpr Attribute kAttribute = Attribute::apr;
  static constexpr uint8_t kNotSupported = 2;
  Be32 local_id;
  Be32 remote_id;
  uint8_t info_length = 0;
  uint8_t status = 0;
  std::array<std::byte, 222> rest{};
};

template <class Body>
inline constexpr bool kIsBody = sizeof(Body) == kMadLength - sizeof(MadHeader) &&
                                alignof(Body) == 1 && std::is_trivially_copyable_v<Body>;
static_assert(kIsBody<Req> && kIsBody<Mra> && kIsBody<Rej> && kIsBody<Rep> && kIsBody<Rtu> &&
              kIsBody<Dreq> && kIsBody<Drep> && kIsBody<SidrReq> && kIsBody<SidrRep> &&
              kIsBody<Lap> && kIsBody<Apr>);

// The reason of a REJ (IBTA 12.6.7.2).
enum class Reason : uint16_t {
  none = 0,
  no_qp = 1,
  no_resources = 3,
  timeout = 4,
  unsupported = 5,
  invalid_id = 6,
  invalid_instance = 7,
  invalid_service = 8,
  invalid_transport = 9,
  stale = 10,
  invalid_gid = 12,
  invalid_mtu = 26,
  insufficient_resources = 27,
  consumer = 28,
  invalid_rnr_retry = 29,
  duplicate_id = 30,
  invalid_class_version = 31,
};

inline const MadHeader& header_of(const Mad& mad) {
  return *reinterpret_cast<const MadHeader*>(mad.data());
}
inline MadHeader& header_of(Mad& mad) { return *reinterpret_cast<MadHeader*>(mad.data()); }

// The body of a datagram that check() has passed.
template <class Body>
const Body& body_of(const Mad& mad) {
  static_assert(kIsBody<Body>);
  return *reinterpret_cast<const Body*>(mad.data() + sizeof(MadHeader));
}
template <class Body>
Body& body_of(Mad& mad) {
  static_assert(kIsBody<Body>);
  return *reinterpret_cast<Body*>(mad.data() + sizeof(MadHeader));
}

// A MAD with this body; all other bytes are zero.
template <class Body>
Mad make(const Body& body, uint64_t transaction) {
  Mad mad;
  MadHeader header;
  header.transaction = transaction;
  header.attribute = static_cast<uint16_t>(Body::kAttribute);
  std::memcpy(mad.data(), &header, sizeof header);
  std::memcpy(mad.data() + sizeof header, &body, sizeof body);
  return mad;
}

enum class MadError : uint8_t {
  none,
  length,     // not 256 bytes
  version,    // of the datagram or of its class
  foreign,    // another class: not for the communication manager
  method,     // not Send
  attribute,  // not one of those above
};

inline MadError check(std::span<const std::byte> bytes, Mad& mad) {
  if (bytes.size() != kMadLength) return MadError::length;
  std::memcpy(mad.data(), bytes.data(), kMadLength);
  const MadHeader& header = header_of(mad);
  if (header.base_version != 1) return MadError::version;
  if (header.management_class != 0x07) return MadError::foreign;
  if (header.class_version != 2) return MadError::version;
  if (header.method != 0x03) return MadError::method;
  const uint16_t attribute = header.attribute;
  const bool known = attribute >= static_cast<uint16_t>(Attribute::req) &&
                     attribute <= static_cast<uint16_t>(Attribute::apr);
  return known ? MadError::none : MadError::attribute;
}

// Path MTUs have codes: 1 is 256, 5 is 4096.
inline uint8_t mtu_code(uint32_t bytes) {
  uint8_t code = 1;
  while (code < 5 && 256u << (code - 1) < bytes) ++code;
  return code;
}
inline uint32_t mtu_of(uint8_t code) { return code >= 1 && code <= 5 ? 128u << code : 0; }

// A time on the wire: 4.096 us * 2^exponent, 0..31.
inline Duration time_of(uint8_t exponent) {
  return Duration::from_ps(4'096'000ll << (exponent < 32 ? exponent : 31));
}

}  // namespace weft::cm
