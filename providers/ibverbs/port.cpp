// SPDX-License-Identifier: BSD-3-Clause
// The port of a device as its driver and the kernel say it: state, speed, GID table.
#include <net/if.h>

#include <cerrno>

#include "providers/ibverbs/context/ibverbs_context.hpp"
#include "providers/ibverbs/gid.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

// Mb/s of one lane, by ibv_port_attr::active_speed.
uint32_t lane_speed(uint8_t code) noexcept {
  switch (code) {
    case 1:
      return 2'500;  // SDR
    case 2:
      return 5'000;  // DDR
    case 4:          // QDR
    case 8:          // FDR10
      return 10'000;
    case 16:
      return 14'000;  // FDR
    case 32:
      return 25'000;  // EDR
    case 64:
      return 50'000;  // HDR
    case 128:
      return 100'000;  // NDR
    default:
      return 0;
  }
}

uint32_t lanes(uint8_t code) noexcept {
  switch (code) {
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 1;
  }
}

PortState state_of(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_INIT:
      return PortState::init;
    case IBV_PORT_ARMED:
      return PortState::armed;
    case IBV_PORT_ACTIVE:
    case IBV_PORT_ACTIVE_DEFER:
      return PortState::active;
    default:
      return PortState::down;
  }
}

}  // namespace

Result<PortAttributes> Context::query_port() const {
  if (forked()) return Error{Code::permission_denied, kForked};
  ibv_port_attr said{};
  if (const int error =
          library_.query_port(raw(), choice_.port, reinterpret_cast<_compat_ibv_port_attr*>(&said));
      error != 0)
    return error_of(error, "cannot query the port of " + attributes_.port);
  PortAttributes port;
  port.state = state_of(said.state);
  port.max_mtu = mtu_from_verbs(said.max_mtu);
  port.active_mtu = mtu_from_verbs(said.active_mtu);
  port.width = lanes(said.active_width);
  port.speed_mbps = lane_speed(said.active_speed) * port.width;
  port.max_message = said.max_msg_sz;
  port.interface_index = attributes_.interface_index;
  char name[IF_NAMESIZE] = {};
  if (if_indextoname(port.interface_index, name) != nullptr) port.interface_name = name;
  const Result<std::vector<GidTableEntry>> gids = query_gid_table();
  if (!gids) return gids.error();
  port.gid_count = static_cast<uint32_t>(gids->size());
  return port;
}

Result<std::vector<GidTableEntry>> Context::query_gid_table() const {
  if (forked()) return Error{Code::permission_denied, kForked};
  // iWARP has IP addresses in place of GIDs.
  if (attributes_.only_by_cm) return verbs::Context::query_gid_table();
  ibv_port_attr said{};
  if (const int error =
          library_.query_port(raw(), choice_.port, reinterpret_cast<_compat_ibv_port_attr*>(&said));
      error != 0)
    return error_of(error, "cannot query the port of " + attributes_.port);
  std::vector<GidTableEntry> table;
  for (const GidEntry& entry : read_gids(library_, *raw(), choice_.port, said.gid_tbl_len))
    table.push_back({entry.index, entry.gid, entry.v2 ? GidType::roce_v2 : GidType::roce_v1,
                     interface_of_entry(*raw(), choice_.port, entry.index)});
  return table;
}

}  // namespace weft::ibverbs
