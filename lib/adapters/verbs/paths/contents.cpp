// SPDX-License-Identifier: BSD-3-Clause
// See contents.hpp. Forms of the texts: Documentation/ABI/stable/sysfs-class-infiniband of Linux.
#include "lib/adapters/verbs/paths/contents.hpp"

#include <net/if.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "lib/adapters/verbs/paths/verbs_calls.hpp"

namespace weft::paths {
namespace {

const char* name_of(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_NOP:
      return "NOP";
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT";
    case IBV_PORT_ARMED:
      return "ARMED";
    case IBV_PORT_ACTIVE:
      return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER:
      return "ACTIVE_DEFER";
  }
  return "<unknown>";
}

// PortPhysicalState of the IBTA.
const char* name_of_physical(unsigned state) noexcept {
  constexpr const char* kNames[] = {"NoChange", "Sleep",  "Polling",         "Disabled",
                                    "PortConf", "LinkUp", "LinkErrRecovery", "PhyTest"};
  return state < 8 ? kNames[state] : "<unknown>";
}

struct Speed {
  unsigned code;
  unsigned tenths;  // Gb/s of a lane, in tenths
  const char* name;
};
constexpr Speed kSpeeds[] = {{1, 25, "SDR"},    {2, 50, "DDR"},    {4, 100, "QDR"},
                             {8, 100, "FDR10"}, {16, 140, "FDR"},  {32, 250, "EDR"},
                             {64, 500, "HDR"},  {128, 1000, "NDR"}};

unsigned lanes_of(unsigned width) noexcept {
  switch (width) {
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

// A mask of all processors, in groups of 32 bits.
void print_all_processors(unsigned count, Text& text) noexcept {
  for (unsigned group = (count + 31) / 32; group-- > 0;) {
    const unsigned bits = count - group * 32;
    text.print("%08x%s", bits >= 32 ? 0xFFFFFFFFU : (1U << bits) - 1, group > 0 ? "," : "\n");
  }
}

unsigned processors() noexcept {
  const long count = ::sysconf(_SC_NPROCESSORS_CONF);
  return count > 0 ? static_cast<unsigned>(count) : 1;
}

}  // namespace

unsigned device_count() noexcept {
  const char* const list = std::getenv("WEFT_VERBS_DEVICES");
  if (list == nullptr || *list == '\0') return 1;
  unsigned count = 0;
  for (const char* at = list; *at != '\0'; ++at)
    count += *at != ';' && (at == list || at[-1] == ';');
  return count;
}

int write_node_guid(const Place& place, Text& text) noexcept {
  uint64_t guid = 0;
  if (!node_guid(place.device, guid)) return ENODATA;
  text.print("%04x:%04x:%04x:%04x\n", static_cast<unsigned>(guid >> 48),
             static_cast<unsigned>(guid >> 32 & 0xFFFF), static_cast<unsigned>(guid >> 16 & 0xFFFF),
             static_cast<unsigned>(guid & 0xFFFF));
  return 0;
}

int write_firmware(const Place& place, Text& text) noexcept {
  ibv_device_attr attributes;
  if (!OpenDevice(place.device).query(attributes)) return ENODATA;
  text.print("%s\n", attributes.fw_ver);
  return 0;
}

// A PCI identifier has 16 bits, an IEEE one 24.
int write_vendor(const Place& place, Text& text) noexcept {
  ibv_device_attr attributes;
  if (!OpenDevice(place.device).query(attributes)) return ENODATA;
  text.print("0x%04x\n", attributes.vendor_id & 0xFFFF);
  return 0;
}

int write_part(const Place& place, Text& text) noexcept {
  ibv_device_attr attributes;
  if (!OpenDevice(place.device).query(attributes)) return ENODATA;
  text.print("0x%04x\n", attributes.vendor_part_id & 0xFFFF);
  return 0;
}

// The device is software: near all processors.
int write_numa_node(const Place&, Text& text) noexcept {
  text.print("-1\n");
  return 0;
}

int write_local_cpus(const Place&, Text& text) noexcept {
  print_all_processors(processors(), text);
  return 0;
}

int write_local_cpulist(const Place&, Text& text) noexcept {
  text.print("0-%u\n", processors() - 1);
  return 0;
}

int write_state(const Place& place, Text& text) noexcept {
  ibv_port_attr port;
  if (!OpenDevice(place.device).query(port)) return ENODATA;
  text.print("%u: %s\n", static_cast<unsigned>(port.state), name_of(port.state));
  return 0;
}

int write_physical_state(const Place& place, Text& text) noexcept {
  ibv_port_attr port;
  if (!OpenDevice(place.device).query(port)) return ENODATA;
  text.print("%u: %s\n", port.phys_state, name_of_physical(port.phys_state));
  return 0;
}

int write_rate(const Place& place, Text& text) noexcept {
  ibv_port_attr port;
  if (!OpenDevice(place.device).query(port)) return ENODATA;
  const unsigned lanes = lanes_of(port.active_width);
  Speed speed = kSpeeds[0];
  for (const Speed& each : kSpeeds)
    if (each.code == port.active_speed) speed = each;
  const unsigned tenths = lanes * speed.tenths;
  text.print(tenths % 10 == 0 ? "%u" : "%u.%u", tenths / 10, tenths % 10);
  text.print(" Gb/sec (%uX %s)\n", lanes, speed.name);
  return 0;
}

int write_capabilities(const Place& place, Text& text) noexcept {
  ibv_port_attr port;
  if (!OpenDevice(place.device).query(port)) return ENODATA;
  text.print("0x%08x\n", port.port_cap_flags);
  return 0;
}

int write_gid(const Place& place, Text& text) noexcept {
  const OpenDevice device(place.device);
  if (!device) return ENODATA;
  ibv_gid_entry entry{};
  device.query(place.index, entry);  // an unused entry is all zero
  for (unsigned i = 0; i < 16; i += 2)
    text.print("%02x%02x%s", entry.gid.raw[i], entry.gid.raw[i + 1], i < 14 ? ":" : "\n");
  return 0;
}

int write_gid_type(const Place& place, Text& text) noexcept {
  ibv_gid_entry entry;
  if (!OpenDevice(place.device).query(place.index, entry)) return EINVAL;  // as the kernel
  text.print("%s\n", entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
  return 0;
}

InterfaceName::InterfaceName(unsigned device) noexcept {
  ibv_gid_entry entry;
  if (!OpenDevice(device).query(0, entry) || ::if_indextoname(entry.ndev_ifindex, text) == nullptr)
    text[0] = '\0';
}

int write_file_of_interface(const Place& place, const char* name, Text& text) noexcept {
  char path[sizeof "/sys/class/net//" + IF_NAMESIZE + 32];
  std::snprintf(path, sizeof path, "/sys/class/net/%s/%s", InterfaceName(place.device).text, name);
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return ENODATA;
  text.length = std::fread(text.bytes, 1, sizeof text.bytes, file);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  return failed ? EINVAL : 0;
}

int write_gid_interface(const Place& place, Text& text) noexcept {
  ibv_gid_entry entry;
  char name[IF_NAMESIZE];
  if (!OpenDevice(place.device).query(place.index, entry)) return EINVAL;
  if (::if_indextoname(entry.ndev_ifindex, name) == nullptr) return EINVAL;
  text.print("%s\n", name);
  return 0;
}

int write_ibdev(const Place& place, Text& text) noexcept {
  text.print("weft%u\n", place.device);
  return 0;
}

int write_device_number(const Place& place, Text& text) noexcept {
  const uint32_t number = kFirstDeviceNumber + place.device;
  text.print("%u:%u\n", number >> 8, number & 0xFF);
  return 0;
}

int write_named_counter(const Place& place, const char* name, unsigned unit, Text& text) noexcept {
  uint64_t value = 0;
  if (!OpenDevice(place.device).count(name, value)) return ENODATA;
  text.print("%llu\n", static_cast<unsigned long long>(value / unit));
  return 0;
}

}  // namespace weft::paths
