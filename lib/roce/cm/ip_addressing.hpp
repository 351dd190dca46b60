// SPDX-License-Identifier: BSD-3-Clause
// How IP addresses and ports travel in a REQ and a SIDR_REQ (IBTA annex A11, "RDMA IP CM service"):
// the port is in the service id, and the first 36 of the private bytes (92, 216) name both
// addresses, as rdma_cm sends and expects it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "lib/roce/cm/mad.hpp"

namespace weft::cm {

// Port spaces of rdma_cm: the upper bytes of a service id.
inline constexpr uint64_t kPortSpaceTcp = 0x0000'0000'0106'0000;

inline constexpr uint64_t kPortSpaceUdp = 0x0000'0000'0111'0000;

inline uint64_t service_of(uint16_t port) { return kPortSpaceTcp | port; }
inline uint64_t datagram_service_of(uint16_t port) { return kPortSpaceUdp | port; }
// False: a service of connections, as a REQ requests.
inline bool of_datagrams(uint64_t service) {
  return (service & ~uint64_t{0xFFFF}) == kPortSpaceUdp;
}

struct IpHeader {
  uint8_t version = 0;     // major:4 minor:4
  uint8_t ip_version = 0;  // 4 or 6, in the top four bits
  Be16 source_port = uint16_t{0};
  std::array<uint8_t, 16> source{};  // an IPv4 address is the last four bytes
  std::array<uint8_t, 16> destination{};
};
static_assert(sizeof(IpHeader) == 36 && alignof(IpHeader) == 1);

inline constexpr size_t kRequestPrivateData = 92 - sizeof(IpHeader);  // left for the application
inline constexpr size_t kSidrPrivateData = 216 - sizeof(IpHeader);

namespace detail {
inline std::array<uint8_t, 16> ip_of(const Gid& gid) {
  std::array<uint8_t, 16> ip = gid.bytes;
  if (gid.is_ipv4()) std::fill_n(ip.begin(), 12, uint8_t{0});
  return ip;
}
inline Gid gid_of(const std::array<uint8_t, 16>& ip, bool ipv4) {
  return ipv4 ? Gid::from_ipv4(ip[12], ip[13], ip[14], ip[15]) : Gid{ip};
}
}  // namespace detail

// Writes header and private data of a Req or SidrReq; `data` has at most kRequestPrivateData bytes,
// or kSidrPrivateData.
template <class Request>
void put_ip_header(Request& req, const Gid& source, uint16_t source_port, const Gid& destination,
                   std::span<const std::byte> data) {
  IpHeader header;
  header.ip_version = destination.is_ipv4() ? 4 << 4 : 6 << 4;
  header.source_port = source_port;
  header.source = detail::ip_of(source);
  header.destination = detail::ip_of(destination);
  std::memcpy(req.private_data.data(), &header, sizeof header);
  std::copy(data.begin(), data.end(), req.private_data.begin() + sizeof header);
}

struct IpAddresses {
  Gid source, destination;
  uint16_t source_port = 0;
};

// Empty if the request has no such header, as it is not from rdma_cm.
template <class Request>
std::optional<IpAddresses> ip_addresses(const Request& req) {
  IpHeader header;
  std::memcpy(&header, req.private_data.data(), sizeof header);
  const int ip = header.ip_version >> 4;
  if (header.version >> 4 != 0 || (ip != 4 && ip != 6)) return {};
  return IpAddresses{detail::gid_of(header.source, ip == 4),
                     detail::gid_of(header.destination, ip == 4), header.source_port};
}

}  // namespace weft::cm
