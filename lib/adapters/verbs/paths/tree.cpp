// SPDX-License-Identifier: BSD-3-Clause
// See tree.hpp.
#include "lib/adapters/verbs/paths/tree.hpp"

#include <sys/sysmacros.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/adapters/verbs/paths/contents.hpp"

namespace weft::paths {
namespace {

constexpr const char* kInSys = "/sys/class/infiniband";
constexpr const char* kInDev = "/dev/infiniband";

// Rows of one directory are neighbours.
constexpr Row kRows[] = {
#define DEVICE "/sys/class/infiniband/weft@/"
    {DEVICE "node_guid", 0, write_node_guid},
    {DEVICE "sys_image_guid", 0, write_node_guid},
    {DEVICE "node_type", 0, write_constant<"1: CA">},
    {DEVICE "node_desc", 0, write_constant<"weft">},
    {DEVICE "hca_type", 0, write_constant<"weft">},
    {DEVICE "board_id", 0, write_constant<"weft">},
    {DEVICE "fw_ver", 0, write_firmware},
    {DEVICE "device/vendor", 0, write_vendor},
    {DEVICE "device/device", 0, write_part},
    {DEVICE "device/numa_node", 0, write_numa_node},
    {DEVICE "device/local_cpus", 0, write_local_cpus},
    {DEVICE "device/local_cpulist", 0, write_local_cpulist},
    {DEVICE "device/net/$/address", 0, write_of_interface<"address">},
    {DEVICE "device/net/$/mtu", 0, write_of_interface<"mtu">},
    {DEVICE "device/net/$/operstate", 0, write_of_interface<"operstate">},
#define PORT DEVICE "ports/1/"
    {PORT "state", 0, write_state},
    {PORT "phys_state", 0, write_physical_state},
    {PORT "link_layer", 0, write_constant<"Ethernet">},
    {PORT "rate", 0, write_rate},
    {PORT "lid", 0, write_constant<"0x0">},
    {PORT "lid_mask_count", 0, write_constant<"0">},
    {PORT "sm_lid", 0, write_constant<"0x0">},
    {PORT "sm_sl", 0, write_constant<"0">},
    {PORT "cap_mask", 0, write_capabilities},
    {PORT "gids/#", kGids, write_gid},
    {PORT "gid_attrs/types/#", kGids, write_gid_type},
    {PORT "gid_attrs/ndevs/#", kGids, write_gid_interface},
    {PORT "pkeys/#", 1, write_constant<"0xffff">},
#define COUNTER(folder, name, weft, unit) \
  { PORT folder "/" name, 0, write_counter<weft, unit> }
    COUNTER("counters", "port_xmit_packets", "tx_packets", 1),
    COUNTER("counters", "port_rcv_packets", "rx_packets", 1),
    COUNTER("counters", "port_xmit_data", "tx_bytes", 4),
    COUNTER("counters", "port_rcv_data", "rx_bytes", 4),
    COUNTER("hw_counters", "sent_pkts", "tx_packets", 1),
    COUNTER("hw_counters", "rcvd_pkts", "rx_packets", 1),
    COUNTER("hw_counters", "duplicate_request", "rx_duplicates", 1),
    COUNTER("hw_counters", "out_of_seq_request", "rx_out_of_sequence", 1),
    COUNTER("hw_counters", "rcvd_rnr_err", "rx_rnr_naks", 1),
    COUNTER("hw_counters", "send_rnr_err", "tx_rnr_naks", 1),
    COUNTER("hw_counters", "rcvd_seq_err", "rx_naks", 1),
    COUNTER("hw_counters", "retry_exceeded_err", "retry_exceeded", 1),
    COUNTER("hw_counters", "retry_rnr_exceeded_err", "rnr_exceeded", 1),
    COUNTER("hw_counters", "completer_retry_err", "tx_rewinds", 1),
#undef COUNTER
#undef PORT
#undef DEVICE
    {"/sys/class/infiniband_verbs/abi_version", 0, write_constant<"6">},
    {"/sys/class/infiniband_verbs/uverbs@/ibdev", 0, write_ibdev},
    {"/sys/class/infiniband_verbs/uverbs@/abi_version", 0, write_constant<"1">},
    {"/sys/class/infiniband_verbs/uverbs@/dev", 0, write_device_number},
    {"/dev/infiniband/uverbs@", 0, nullptr, kFirstDeviceNumber},
    {"/dev/infiniband/rdma_cm", 0, nullptr, kRdmaCmNumber},
};

bool begins(const char* text, const char* with) noexcept {
  return std::strncmp(text, with, std::strlen(with)) == 0;
}

// Copies `path` without doubled slashes, "." and ".."; false if it does not fit.
bool normalize(const char* path, char (&to)[kLongestPath]) noexcept {
  size_t length = 0;
  for (const char* at = path; *at != '\0';) {
    at += std::strspn(at, "/");
    const size_t part = std::strcspn(at, "/");
    if (part == 2 && at[0] == '.' && at[1] == '.') {
      while (length > 0 && to[--length] != '/') continue;
    } else if (part != 0 && !(part == 1 && at[0] == '.')) {
      if (length + part + 2 > sizeof to) return false;
      to[length++] = '/';
      std::memcpy(to + length, at, part);
      length += part;
    }
    at += part;
  }
  to[length] = '\0';
  return true;
}

// Reads a number without leading zeros that is below `count`.
bool take_number(const char*& path, unsigned count, unsigned& number) noexcept {
  char* end = nullptr;
  if (*path < '0' || *path > '9' || (path[0] == '0' && path[1] >= '0' && path[1] <= '9'))
    return false;
  const unsigned long value = std::strtoul(path, &end, 10);
  path = end;
  number = static_cast<unsigned>(value);
  return value < count;
}

// Matches as much of the row's path as `path` has. Returns what is left of the row's path: "" for
// the file itself, "/..." below a directory; null if they differ.
const char* match(const Row& row, const char* path, Place& place) noexcept {
  const char* pattern = row.path;
  while (*path != '\0') {
    if (*pattern == '$') {
      const InterfaceName name(place.device);
      const size_t length = std::strlen(name.text);
      if (length == 0 || !begins(path, name.text)) return nullptr;
      path += length;
      ++pattern;
    } else if (*pattern == '@' || *pattern == '#') {
      const bool device = *pattern++ == '@';
      if (!take_number(path, device ? device_count() : row.count,
                       device ? place.device : place.index))
        return nullptr;
    } else if (*pattern++ != *path++) {
      return nullptr;
    }
  }
  if (*pattern != '/' && *pattern != '\0') return nullptr;
  const bool lists_interface = begins(pattern, "/net/$") || begins(pattern, "/$");
  return lists_interface && *InterfaceName(place.device).text == '\0' ? nullptr : pattern;
}

// Writes name number `n` of the component that begins behind `rest`; false if it has fewer.
bool expand(const Row& row, const Place& place, const char* rest, size_t n, Name& name) noexcept {
  const char* const component = rest + 1;
  const size_t length = std::strcspn(component, "/");
  name.kind = component[length] == '/' ? Kind::directory
              : row.write != nullptr   ? Kind::file
                                       : Kind::device;
  if (*component == '$') {
    std::snprintf(name.text, sizeof name.text, "%s", InterfaceName(place.device).text);
    return n == 0;
  }
  const size_t fixed = std::strcspn(component, "@#/");
  if (fixed == length) {
    std::snprintf(name.text, sizeof name.text, "%.*s", static_cast<int>(length), component);
    return n == 0;
  }
  std::snprintf(name.text, sizeof name.text, "%.*s%zu", static_cast<int>(fixed), component, n);
  return n < (component[fixed] == '@' ? device_count() : row.count);
}

// How many names expand() has for the component.
size_t names_of(const Row& row, const char* rest) noexcept {
  const char mark = rest[1 + std::strcspn(rest + 1, "@#/")];
  return mark == '@' ? device_count() : mark == '#' ? row.count : 1;
}

bool same_component(const Row& one, const Row& other, const char* rest) noexcept {
  const size_t length = static_cast<size_t>(rest - one.path) + 1 + std::strcspn(rest + 1, "/");
  return std::strncmp(one.path, other.path, length) == 0 &&
         (other.path[length] == '/' || other.path[length] == '\0');
}

}  // namespace

Node find(const char* path) noexcept {
  Node node;
  if (!begins(path, kInSys) && !begins(path, kInDev)) return node;
  if (!normalize(path, node.path)) return node;
  for (const Row& row : kRows) {
    Place place;
    const char* const rest = match(row, node.path, place);
    if (rest == nullptr) continue;
    node.place = place;
    node.row = &row;
    node.kind = *rest == '/' ? Kind::directory : row.write != nullptr ? Kind::file : Kind::device;
    break;
  }
  return node;
}

bool name_in(const Node& directory, size_t n, Name& name) noexcept {
  const Row* before = nullptr;
  for (const Row& row : kRows) {
    Place place;
    const char* const rest = match(row, directory.path, place);
    if (rest == nullptr) continue;
    if (before != nullptr && same_component(row, *before, rest)) continue;
    before = &row;
    const size_t names = names_of(row, rest);
    if (n < names) return expand(row, place, rest, n, name);
    n -= names;
  }
  return false;
}

}  // namespace weft::paths
