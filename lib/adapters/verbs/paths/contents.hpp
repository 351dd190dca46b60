// SPDX-License-Identifier: BSD-3-Clause
// The text of the view's files. Values that an open device has (GIDs, port, counters) come from the
// libibverbs.so.1 that is loaded beside this library, by its public functions; where there is none,
// reading fails with ENODATA.
#pragma once

#include <net/if.h>

#include <cstddef>
#include <cstdint>

#include "lib/adapters/verbs/paths/tree.hpp"

namespace weft::paths {

// Of the kernel: char devices 231:192 and 231:193 .. are uverbs0, uverbs1 ..; 10:58 is rdma_cm.
constexpr uint32_t kFirstDeviceNumber = (231U << 8) + 192;
constexpr uint32_t kRdmaCmNumber = (10U << 8) + 58;
constexpr unsigned kGids = 16;  // entries of the GID table

// Devices of WEFT_VERBS_DEVICES; 1 if it is not set, as libibverbs.so.1 has.
unsigned device_count() noexcept;

// The network interface that has the address of weftN; empty: there is none.
struct InterfaceName {
  explicit InterfaceName(unsigned device) noexcept;
  char text[IF_NAMESIZE] = {};
};

int write_node_guid(const Place& place, Text& text) noexcept;
int write_firmware(const Place& place, Text& text) noexcept;
int write_vendor(const Place& place, Text& text) noexcept;
int write_part(const Place& place, Text& text) noexcept;
int write_numa_node(const Place& place, Text& text) noexcept;
int write_local_cpus(const Place& place, Text& text) noexcept;
int write_local_cpulist(const Place& place, Text& text) noexcept;
int write_state(const Place& place, Text& text) noexcept;
int write_physical_state(const Place& place, Text& text) noexcept;
int write_rate(const Place& place, Text& text) noexcept;
int write_capabilities(const Place& place, Text& text) noexcept;
int write_gid(const Place& place, Text& text) noexcept;
int write_gid_type(const Place& place, Text& text) noexcept;
int write_gid_interface(const Place& place, Text& text) noexcept;
int write_ibdev(const Place& place, Text& text) noexcept;
int write_device_number(const Place& place, Text& text) noexcept;

// What the machine says of the device's interface: a file of /sys/class/net/INTERFACE.
int write_file_of_interface(const Place& place, const char* name, Text& text) noexcept;

// The counter of weft with this name, in units of `unit`.
int write_named_counter(const Place& place, const char* name, unsigned unit, Text& text) noexcept;

// A string as a template argument.
template <size_t size>
struct Literal {
  char text[size];
  constexpr Literal(const char (&from)[size]) noexcept {
    for (size_t i = 0; i < size; ++i) text[i] = from[i];
  }
};

template <Literal value>
int write_constant(const Place&, Text& text) noexcept {
  text.print("%s\n", value.text);
  return 0;
}

template <Literal name>
int write_of_interface(const Place& place, Text& text) noexcept {
  return write_file_of_interface(place, name.text, text);
}

template <Literal name, unsigned unit>
int write_counter(const Place& place, Text& text) noexcept {
  return write_named_counter(place, name.text, unit, text);
}

}  // namespace weft::paths
