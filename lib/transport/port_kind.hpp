// SPDX-License-Identifier: BSD-3-Clause
// How a folder of providers/port registers its port. Its port.cpp ends with
//
//   static consteval transport::PortKind describe() {
//     return {.default_device = "lo", .open = &open_udp_port};
//   }
//   WEFT_PORT(udp, describe());
//
// inside namespace weft::port. CMake lists the folders that have a port.cpp (cmake/ports.cmake), so
// that no table names them. Where a library of the port is missing, only port.cpp is compiled, and
// `open` says which package to install. So too in libweft.so if the port is a module of it, which
// is loaded in place of what port.cpp says. Hence port.cpp includes no header of that library.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/transport/port.hpp"

namespace weft::transport {

// How the conformance suite (tests/conformance) opens two devices that reach each other.
struct PortTests {
  // What follows "PORT:". `*` stands for a name that no other pair of devices has, "wire?" for the
  // two ends of a veth pair. Empty: the suite leaves the port out.
  std::string_view device;
  // Any number of devices reach each other, not only a pair.
  bool shared = false;
  // Only provider srd, without losses: saves the time of a port whose code others run too.
  bool brief = false;
  // A second address of the same machine, for rails=; empty: none.
  std::string_view rail;
  // A second form of the port, with further keys of the device string.
  std::string_view variant, variant_keys;
  uint32_t veth_mtu = 1500;
};

struct PortKind {
  std::string_view name;            // "udp"; the folder's
  std::string_view default_device;  // "lo": what is opened if the device string names none
  Result<std::unique_ptr<Port>> (*open)(const PortOptions& options) = nullptr;
  // Whether it could be opened, for a port whose opening may disturb the interface; null: open it.
  Result<void> (*probe)(const PortOptions& options) = nullptr;
  std::string_view further_keys;  // a port whose keys it takes, too
  bool rails = false;             // several of them, with an address each, can be one device
  bool engines = false;  // several of them can share one address, one for each engine of a device
  // Position in lists; ports of equal order by name.
  uint32_t order = 1000;
  PortTests tests;
  // "libdpdk: apt-get install libdpdk-dev" where the port was built without its library.
  std::string_view missing;
  // The functions are in the module port_NAME.so (lib/base/module/module.hpp), of this Debian
  // package. Empty: they are here.
  std::string_view package;
};

inline Error not_built(std::string_view port, std::string_view missing) {
  return {Code::not_supported, std::string(port) + ": this weft was built without " +
                                   std::string(missing) + ", and build it again"};
}

// `kind` under its name and, if `open` is given, with it in place of its functions. They are only
// named in constant expressions then, so that their definitions may be missing.
consteval PortKind register_kind(PortKind kind, std::string_view name,
                                 std::string_view missing = {},
                                 decltype(PortKind::open) open = nullptr) {
  kind.name = name;
  kind.missing = missing;
  if (open != nullptr) {
    kind.open = open;
    kind.probe = nullptr;
  }
  return kind;
}

// The same for a port of a module, whose functions are not linked in.
consteval PortKind kind_of_module(PortKind kind, std::string_view name, std::string_view package,
                                  std::string_view missing) {
  kind.name = name;
  kind.package = package;
  kind.missing = missing;
  kind.open = nullptr;
  kind.probe = nullptr;
  return kind;
}

}  // namespace weft::transport

// Set by CMake where only port.cpp of the folder is compiled: WEFT_PORT_PACKAGE if the port is a
// module, WEFT_PORT_MISSING if it was not built.
#if defined(WEFT_PORT_PACKAGE)
#define WEFT_PORT(FOLDER, KIND)                                                         \
  const transport::PortKind& port_in_##FOLDER() {                                       \
    static constexpr transport::PortKind kRegistered =                                  \
        transport::kind_of_module(KIND, #FOLDER, WEFT_PORT_PACKAGE, WEFT_PORT_MISSING); \
    return kRegistered;                                                                 \
  }                                                                                     \
  static_assert(true, "takes the semicolon")
#elif defined(WEFT_PORT_MISSING)
#define WEFT_PORT(FOLDER, KIND)                                                          \
  const transport::PortKind& port_in_##FOLDER() {                                        \
    static constexpr transport::PortKind kRegistered = transport::register_kind(         \
        KIND, #FOLDER, WEFT_PORT_MISSING,                                                \
        +[](const transport::PortOptions&) -> Result<std::unique_ptr<transport::Port>> { \
          return transport::not_built(#FOLDER, WEFT_PORT_MISSING);                       \
        });                                                                              \
    return kRegistered;                                                                  \
  }                                                                                      \
  static_assert(true, "takes the semicolon")
#else
#define WEFT_PORT(FOLDER, KIND)                                                                 \
  const transport::PortKind& port_in_##FOLDER() {                                               \
    static constexpr transport::PortKind kRegistered = transport::register_kind(KIND, #FOLDER); \
    return kRegistered;                                                                         \
  }                                                                                             \
  static_assert(true, "takes the semicolon")
#endif

namespace weft::port {

using PortFolder = const transport::PortKind& (*)();

// One function for each folder of providers/port that has a port.cpp, generated by CMake.
std::span<const PortFolder> port_folders();

}  // namespace weft::port
