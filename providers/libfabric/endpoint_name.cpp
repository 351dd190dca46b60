// SPDX-License-Identifier: BSD-3-Clause
// See endpoint_name.hpp.
#include "providers/libfabric/endpoint_name.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace weft::libfabric {

namespace {

constexpr std::string_view kShm = "fi_shm://";
constexpr uint32_t kFirstNumber = 2;  // 0 and 1 are no numbers of queue pairs that connect
constexpr uint8_t kShmGid[4] = {0xFD, 's', 'h', 'm'};

Error no_room(uint32_t format, const std::string& name) {
  return {Code::not_supported,
          "names of this provider of libfabric (address format " + std::to_string(format) +
              (name.empty() ? "" : ", \"" + name + "\"") +
              ") do not fit in a GID and a queue pair number: use one with IP addresses, or shm"};
}

template <class Address>
Result<Address> read_address(uint32_t format, const std::vector<std::byte>& bytes) {
  Address address{};
  if (bytes.size() < sizeof address) return no_room(format, {});
  std::memcpy(&address, bytes.data(), sizeof address);
  return address;
}

template <class Address>
std::vector<std::byte> bytes_of(const Address& address) {
  std::vector<std::byte> bytes(sizeof address);
  std::memcpy(bytes.data(), &address, sizeof address);
  return bytes;
}

Result<EndpointName> from_ipv4(const std::vector<std::byte>& bytes) {
  const Result<sockaddr_in> address = read_address<sockaddr_in>(FI_SOCKADDR_IN, bytes);
  if (!address) return address.error();
  const auto* const at = reinterpret_cast<const uint8_t*>(&address->sin_addr);
  return EndpointName{Gid::from_ipv4(at[0], at[1], at[2], at[3]), QpNum{ntohs(address->sin_port)}};
}

Result<EndpointName> from_ipv6(const std::vector<std::byte>& bytes) {
  const Result<sockaddr_in6> address = read_address<sockaddr_in6>(FI_SOCKADDR_IN6, bytes);
  if (!address) return address.error();
  EndpointName name{{}, QpNum{ntohs(address->sin6_port)}};
  std::memcpy(name.gid.bytes.data(), &address->sin6_addr, name.gid.bytes.size());
  return name;
}

Gid shm_gid(uint32_t pid, uint32_t uid) {
  Gid gid;
  const uint32_t words[2] = {htonl(pid), htonl(uid)};
  std::memcpy(gid.bytes.data(), kShmGid, sizeof kShmGid);
  std::memcpy(gid.bytes.data() + 8, words, sizeof words);
  return gid;
}

Result<EndpointName> from_shm(const std::vector<std::byte>& bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.resize(std::min(text.size(), text.find('\0')));
  unsigned pid = 0, uid = 0, index = 0;
  char rest = 0;
  if (text.rfind(kShm, 0) != 0 ||
      std::sscanf(text.c_str() + kShm.size(), "%u:%u:%u%c", &pid, &uid, &index, &rest) != 3 ||
      index >= Psn::kMask - kFirstNumber)
    return no_room(FI_ADDR_STR, text);
  return EndpointName{shm_gid(pid, uid), QpNum{index + kFirstNumber}};
}

Result<std::vector<std::byte>> to_shm(const EndpointName& name) {
  if (std::memcmp(name.gid.bytes.data(), kShmGid, sizeof kShmGid) != 0 ||
      name.number.value < kFirstNumber)
    return Error{Code::invalid_argument,
                 to_string(name.gid) +
                     " is no address of libfabric's shm: the peer must open a "
                     "device of the same provider"};
  uint32_t words[2];
  std::memcpy(words, name.gid.bytes.data() + 8, sizeof words);
  const std::string text = std::string(kShm) + std::to_string(ntohl(words[0])) + ":" +
                           std::to_string(ntohl(words[1])) + ":" +
                           std::to_string(name.number.value - kFirstNumber);
  std::vector<std::byte> bytes(text.size() + 1);
  std::memcpy(bytes.data(), text.c_str(), bytes.size());
  return bytes;
}

}  // namespace

Result<EndpointName> from_bytes(uint32_t format, const std::vector<std::byte>& bytes) {
  switch (format) {
    case FI_SOCKADDR_IN:
      return from_ipv4(bytes);
    case FI_SOCKADDR_IN6:
      return from_ipv6(bytes);
    case FI_ADDR_STR:
      return from_shm(bytes);
    default:
      return no_room(format, {});
  }
}

Result<std::vector<std::byte>> to_bytes(uint32_t format, const EndpointName& name) {
  if (format == FI_ADDR_STR) return to_shm(name);
  const auto port = static_cast<uint16_t>(name.number.value);
  if (port != name.number.value)
    return Error{Code::invalid_argument,
                 "queue pair number " + std::to_string(name.number.value) +
                     " is no port: the peer must open a device of the same provider of libfabric"};
  if (format == FI_SOCKADDR_IN && name.gid.is_ipv4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    std::memcpy(&address.sin_addr, name.gid.bytes.data() + 12, sizeof address.sin_addr);
    return bytes_of(address);
  }
  if (format == FI_SOCKADDR_IN6 && !name.gid.is_ipv4()) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    std::memcpy(&address.sin6_addr, name.gid.bytes.data(), sizeof address.sin6_addr);
    return bytes_of(address);
  }
  return Error{Code::invalid_argument,
               to_string(name.gid) +
                   " is not of the address family of this device: both sides "
                   "need IPv4, or both IPv6 (key node=ADDRESS)"};
}

Gid shm_address() { return shm_gid(static_cast<uint32_t>(getpid()), getuid()); }

Result<EndpointName> name_of(uint32_t format, fid_ep& endpoint) {
  std::vector<std::byte> bytes(256);
  size_t length = bytes.size();
  if (const int code = fi_getname(&endpoint.fid, bytes.data(), &length); code != 0)
    return error_of(code, "the endpoint has no name");
  bytes.resize(std::min(bytes.size(), length));
  return from_bytes(format, bytes);
}

}  // namespace weft::libfabric
