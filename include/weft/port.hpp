// SPDX-License-Identifier: BSD-3-Clause
// The port of a device: its state, speed and GID table (verbs: ibv_query_port,
// ibv_query_gid_table). Every device has one port, with the number 1. Device::query_port() and
// Device::query_gid_table() in device.hpp return what is here.
//
// On `roce` and `srd` the port is the network interface that the device sends on, or, for ports of
// shared memory and for addresses that no interface of this machine has (dpdk), an ideal one:
// active, 100 Gb/s, without an interface.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/types.hpp"

namespace weft {

// States of a port, with the numbers of ibv_port_state.
enum class PortState : uint8_t {
  down = 1,
  init = 2,    // `ibverbs` on InfiniBand
  armed = 3,   // likewise
  active = 4,  // the interface is up and has a carrier
};
// The name as spelled above.
std::string_view name(PortState state) noexcept;

// What Device::query_port() returns.
struct PortAttributes {
  PortState state = PortState::down;
  uint32_t max_mtu = 0;     // bytes: the largest path MTU that the device has
  uint32_t active_mtu = 0;  // bytes: the largest path MTU that the interface carries now
  // Megabits per second of all lanes, as the interface's driver says it (ethtool). 100,000 for the
  // loopback interface and shared memory; 1,000 if the driver does not know, as in the kernel.
  uint32_t speed_mbps = 0;
  // Lanes: 1, 2, 4, 8 or 12. Of `roce` and `srd` those that such a speed usually has.
  uint32_t width = 1;
  uint64_t max_message = 0;      // bytes
  uint32_t gid_count = 0;        // entries of query_gid_table()
  uint32_t interface_index = 0;  // of the network interface; 0: none
  std::string interface_name{};  // "eth0"; empty: none
};

// The type of a GID, with the numbers of ibv_gid_type.
enum class GidType : uint8_t { ib = 0, roce_v1 = 1, roce_v2 = 2 };
// The name as spelled above.
std::string_view name(GidType type) noexcept;

// An entry of the GID table (verbs: ibv_gid_entry).
struct GidTableEntry {
  uint32_t index = 0;
  Gid gid{};
  GidType type = GidType::roce_v2;
  uint32_t interface_index = 0;  // of the network interface with this address; 0: none
};

}  // namespace weft
