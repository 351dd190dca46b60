// SPDX-License-Identifier: BSD-3-Clause
// The port of a device whose packets leave by a network interface of this machine, or by none: what
// query_port() and query_gid_table() say of it. And the node GUID of software devices.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "lib/base/guarded.hpp"
#include "lib/base/interface.hpp"
#include "lib/verbs/node_guid.hpp"
#include "lib/verbs/provider.hpp"

namespace weft {

using base::guarded;

namespace verbs {
namespace {

constexpr uint32_t kIdealSpeed = 100'000;  // of memory: Mb/s
constexpr uint32_t kUnknownSpeed = 1'000;  // as the kernel's RDMA core takes it

// Lanes that links of such a speed usually have, as the kernel's RDMA core takes them.
uint32_t width_of(uint32_t speed_mbps) noexcept {
  static constexpr std::pair<uint32_t, uint32_t> kWidths[] = {
      {10'000, 1}, {20'000, 4},  {25'000, 1},  {40'000, 4},
      {50'000, 2}, {100'000, 4}, {400'000, 4}, {UINT32_MAX, 8}};
  for (const auto& [up_to, lanes] : kWidths)
    if (speed_mbps <= up_to) return lanes;
  return 1;
}

// FNV-1a.
uint64_t hash_of(std::string_view text, uint64_t hash) noexcept {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

}  // namespace

Result<PortAttributes> Context::query_port() const {
  const DeviceAttributes& device = attributes();
  PortAttributes port;
  port.max_mtu = device.max_mtu;
  port.active_mtu = device.active_mtu;
  port.max_message = device.max_message;
  port.state = PortState::active;
  port.speed_mbps = kIdealSpeed;
  if (device.interface_index != 0) {
    const base::InterfaceState interface = base::interface_state(device.interface_index);
    port.interface_index = device.interface_index;
    port.interface_name = interface.name;
    port.state = interface.works ? PortState::active : PortState::down;
    if (!interface.loopback)
      port.speed_mbps = interface.speed_mbps != 0 ? interface.speed_mbps : kUnknownSpeed;
  }
  port.width = width_of(port.speed_mbps);
  const Result<std::vector<GidTableEntry>> gids = query_gid_table();
  if (!gids) return gids.error();
  port.gid_count = static_cast<uint32_t>(gids->size());
  return port;
}

Result<std::vector<GidTableEntry>> Context::query_gid_table() const {
  const DeviceAttributes& device = attributes();
  std::vector<GidTableEntry> table;
  for (const Gid& gid : device.further_gids)
    table.push_back({.gid = gid, .interface_index = base::interface_for(gid)});
  table.insert(table.begin(), {.gid = device.gid, .interface_index = device.interface_index});
  for (const Gid& gid : base::addresses_of(device.interface_index)) {
    const bool listed = std::any_of(table.begin(), table.end(),
                                    [&](const GidTableEntry& entry) { return entry.gid == gid; });
    if (!listed) table.push_back({.gid = gid, .interface_index = device.interface_index});
  }
  for (uint32_t i = 0; i < table.size(); ++i) table[i].index = i;
  return table;
}

uint64_t node_guid(const DeviceSpec& spec) {
  char host[256] = {};
  (void)gethostname(host, sizeof host - 1);
  std::ifstream file("/etc/machine-id");
  const std::string machine(std::istreambuf_iterator<char>(file), {});
  uint64_t hash = 0xCBF29CE484222325u;
  for (const std::string_view part :
       {std::string_view(machine), std::string_view(host), std::string_view(spec.provider),
        std::string_view(spec.port), std::string_view(spec.where)})
    hash = hash_of("\n", hash_of(part, hash));
  constexpr uint64_t kLocal = uint64_t{2} << 56, kGroup = uint64_t{1} << 56;  // EUI-64
  return (hash | kLocal) & ~kGroup;
}

}  // namespace verbs

Result<PortAttributes> Device::query_port() const {
  return guarded([&] { return context_->query_port(); });
}

Result<std::vector<GidTableEntry>> Device::query_gid_table() const {
  return guarded([&] { return context_->query_gid_table(); });
}

Result<uint64_t> node_guid(std::string_view text) {
  return guarded([&]() -> Result<uint64_t> {
    const Result<verbs::DeviceSpec> spec = verbs::parse_device_spec(text);
    if (!spec) return spec.error();
    if (spec->provider == "ibverbs")
      return Error{Code::not_supported,
                   "devices of ibverbs have node GUIDs of their own: open the device and see "
                   "DeviceAttributes::node_guid"};
    return verbs::node_guid(*spec);
  });
}

}  // namespace weft
