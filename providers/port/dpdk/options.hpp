// SPDX-License-Identifier: BSD-3-Clause
// The keys of the dpdk port, written dpdk.KEY=VALUE in a device string. A key that is none of these
// is an argument of the DPDK device: dpdk.socket=/run/m.sock gives net_memif its socket.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/transport/port.hpp"
#include "lib/wire/encapsulation.hpp"

namespace weft::port::dpdk {

inline constexpr uint32_t kMemory_mb = 192;

enum class HugePages : uint8_t { automatic, never, always };

struct Options {
  std::string device;            // "net_memif", "net_tap1", "0000:00:05.0"
  bool is_pci = false;           // an address of that form
  std::string device_arguments;  // "role=client,socket=/run/m.sock"
  Gid address;                   // all zero: IPv6 link-local, from the device's MAC address
  uint32_t prefix = 0;           // prefix length of the link; 0: all addresses are on it
  Gid gateway;
  uint32_t vlan = 0;
  uint16_t udp_port = 4791;                                  // of the protocol
  uint16_t telemetry_port = 0;                               // of frames with telemetry; 0: none
  std::vector<std::pair<Gid, wire::MacAddress>> neighbours;  // permanent neighbour entries
  uint32_t queues = 1;                                       // each way, one for each engine
  uint32_t mtu = 4096;                                       // largest RoCE path MTU to prepare for
  // Whether the device's offloads are used; unset: on a physical device only.
  std::optional<bool> offload;
  // Of the whole process: those of its first device count.
  HugePages huge = HugePages::automatic;
  std::optional<uint32_t> memory_mb;  // without hugepages; kMemory_mb
  std::string eal_arguments;          // more of them, separated by spaces
};

// Whether the device is of one of these drivers.
bool is_one_of(const Options& options, std::initializer_list<const char*> drivers);

// The value of an argument of the device; empty without it.
std::string device_argument(const Options& options, const std::string& key);
// Gives the device an argument, unless the user has given it another value.
void add_device_argument(Options& options, const std::string& key, const std::string& value);

// Errors: invalid_argument, naming the key and its valid values.
Result<Options> parse_options(const transport::PortOptions& options);

}  // namespace weft::port::dpdk
