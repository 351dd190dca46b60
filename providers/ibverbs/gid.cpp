// SPDX-License-Identifier: BSD-3-Clause
// See gid.hpp.
#include "providers/ibverbs/gid.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>

#include <cstring>
#include <fstream>
#include <memory>

#include "lib/base/socket_gid.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

constexpr size_t kMacLength = 6;

// What the kernel says of an entry: `what` is "types" or "ndevs".
std::string attribute(const ibv_context& context, uint8_t port, const char* what, int index) {
  std::ifstream file(std::string(context.device->ibdev_path) + "/ports/" + std::to_string(port) +
                     "/gid_attrs/" + what + "/" + std::to_string(index));
  std::string line;
  std::getline(file, line);
  return line;
}

bool is_v2(const ibv_context& context, uint8_t port, int index) {
  return attribute(context, port, "types", index).find("v2") != std::string::npos;
}

int rank(const GidEntry& entry) noexcept {
  const bool link_local = entry.gid.bytes[0] == 0xFE && (entry.gid.bytes[1] & 0xC0) == 0x80;
  return (entry.v2 ? 4 : 0) + (entry.gid.is_ipv4() ? 2 : link_local ? 0 : 1);
}

}  // namespace

std::vector<GidEntry> read_gids(const Library& library, ibv_context& context, uint8_t port,
                                int table_length) {
  std::vector<GidEntry> entries;
  for (int index = 0; index < table_length && index <= UINT8_MAX; ++index) {
    ibv_gid raw;
    if (library.query_gid(&context, port, index, &raw) != 0) continue;
    const Gid gid = from_verbs(raw);
    if (gid == Gid{}) continue;
    entries.push_back({static_cast<uint8_t>(index), gid, is_v2(context, port, index)});
  }
  return entries;
}

uint32_t interface_of_entry(const ibv_context& context, uint8_t port, int index) {
  return if_nametoindex(attribute(context, port, "ndevs", index).c_str());
}

Gid address_of_mac(const Gid& mac) {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, freeifaddrs);
  std::string interface;
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_PACKET) continue;
    sockaddr_ll link;
    std::memcpy(&link, entry->ifa_addr, sizeof link);
    if (std::memcmp(link.sll_addr, mac.bytes.data(), kMacLength) == 0) interface = entry->ifa_name;
  }
  std::vector<GidEntry> found;
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || interface != entry->ifa_name) continue;
    const sa_family_t family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage address{};
    std::memcpy(&address, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.push_back({0, base::gid_of(address), true});
  }
  const GidEntry* const best = choose_gid(found);
  return best != nullptr ? best->gid : Gid{};
}

const GidEntry* choose_gid(std::span<const GidEntry> entries) noexcept {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : entries)
    if (best == nullptr || rank(entry) > rank(*best)) best = &entry;
  return best;
}

}  // namespace weft::ibverbs
