// SPDX-License-Identifier: BSD-3-Clause
// What the conformance suite runs over, derived from the ports of this build (PortTests in
// lib/transport/port_kind.hpp), and the cases of a test: one for each wire of a set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/catch.hpp"
#include "tests/support/namespace.hpp"
#include "tests/support/skip.hpp"

namespace weft::test {

// A device string for both sides of a test. The name is that of the port, of provider roce, or
// "srd_" and the port, of provider srd, and a form: `lossy` loses, repeats and reorders frames;
// `captured` writes each to a file; `engines` has two engines, and each side lives on the last of
// its own; `rails` has two addresses; the others are variants of a port (`copied`: shared memory
// without pulling from the peer). `ibverbs` is a device of the kernel with another's engine: what
// such a device lacks is in its DeviceAttributes, and differences from weft's engines are noted in
// the tests.
class Wire {
 public:
  // `name` lives as long as the program.
  constexpr explicit Wire(std::string_view name) : name_(name) {}
  constexpr std::string_view name() const { return name_; }
  friend constexpr bool operator==(Wire, Wire) = default;

  static const Wire udp, shm, dpdk, af_packet, srd_shm, srd_udp_rails, ibverbs;

 private:
  std::string_view name_;
};
inline constexpr Wire Wire::udp{"udp"};
inline constexpr Wire Wire::shm{"shm"};
inline constexpr Wire Wire::dpdk{"dpdk"};
inline constexpr Wire Wire::af_packet{"af_packet"};
inline constexpr Wire Wire::srd_shm{"srd_shm"};
inline constexpr Wire Wire::srd_udp_rails{"srd_udp_rails"};
inline constexpr Wire Wire::ibverbs{"ibverbs"};

inline std::string_view name(Wire wire) { return wire.name(); }
inline bool lossy(Wire wire) { return name(wire).ends_with("_lossy"); }
inline bool is_srd(Wire wire) { return name(wire).starts_with("srd_"); }

// The device string of a wire, which both sides of a test open. Its shared-memory job is unique to
// this process and call, so that concurrent tests do not interfere.
std::string device_string(Wire wire);

// The environment of a test: for ports that need a veth pair, its two interfaces in a network
// namespace that exists as long as this object.
class Ground {
 public:
  explicit Ground(Wire wire);
  // Why the wire is not available to this build or user; empty if it is: a failure to open it then
  // fails the test.
  const std::string& missing() const { return missing_; }

 private:
  std::unique_ptr<Namespace> own_;
  std::string missing_;
};

// Sets of wires. Of roce: ports on which any number of devices meet (a memif has two ends), all
// ports, with losses, all wires. Of srd the same.
enum class WireSet : uint8_t {
  shared_ports,
  our_ports,
  lossy_ports,
  our_wires,
  shared_srd,
  srd_ports,
  lossy_srd,
  srd_wires,
};

// Registers "TEXT @WIRE" for each wire of a set. A case whose wire is not available is skipped.
struct CasesOnWires {
  CasesOnWires(void (*body)(Wire), const char* text, WireSet set,
               const Catch::SourceLineInfo& place);
};

#define WEFT_ON_WIRES(body, text, set)                                           \
  static const weft::test::CasesOnWires INTERNAL_CATCH_UNIQUE_NAME(weft_cases_)( \
      body, text, weft::test::WireSet::set, CATCH_INTERNAL_LINEINFO);
// One Catch2 case of `body`, a function of a Wire.
#define WEFT_ON_WIRE(body, text, wire)                                           \
  TEST_CASE(text " @" #wire) {                                                   \
    const weft::test::Ground ground{weft::test::Wire(#wire)};                    \
    if (!ground.missing().empty()) WEFT_SKIP(text " @" #wire, ground.missing()); \
    body(weft::test::Wire(#wire));                                               \
  }
// On the device that WEFT_TEST_DEVICE names; hidden, because few machines have one. tests/interop
// runs these in a guest: PROGRAM [ibverbs].
#define WEFT_ON_IBVERBS(body, text) \
  TEST_CASE(text " @ibverbs", "[.ibverbs]") { body(weft::test::Wire::ibverbs); }
#define WEFT_ON_SHARED_PORTS(body, text)  \
  WEFT_ON_WIRES(body, text, shared_ports) \
  WEFT_ON_IBVERBS(body, text)
// Guarantees of weft's engines only.
#define WEFT_ON_OUR_PORTS(body, text) WEFT_ON_WIRES(body, text, our_ports)
#define WEFT_ON_EACH_PORT(body, text) \
  WEFT_ON_OUR_PORTS(body, text)       \
  WEFT_ON_IBVERBS(body, text)
#define WEFT_ON_LOSSY_PORTS(body, text) WEFT_ON_WIRES(body, text, lossy_ports)
#define WEFT_ON_OUR_WIRES(body, text) WEFT_ON_WIRES(body, text, our_wires)
#define WEFT_ON_EACH_WIRE(body, text) \
  WEFT_ON_OUR_WIRES(body, text)       \
  WEFT_ON_IBVERBS(body, text)

// The same of srd.
#define WEFT_ON_SHARED_SRD(body, text) WEFT_ON_WIRES(body, text, shared_srd)
#define WEFT_ON_SRD_PORTS(body, text) WEFT_ON_WIRES(body, text, srd_ports)
#define WEFT_ON_LOSSY_SRD(body, text) WEFT_ON_WIRES(body, text, lossy_srd)
#define WEFT_ON_SRD_WIRES(body, text) WEFT_ON_WIRES(body, text, srd_wires)
// Tests that need neither the order of RC nor errors that end a connection.
#define WEFT_ON_EACH_PORT_AND_SRD(body, text) \
  WEFT_ON_EACH_PORT(body, text)               \
  WEFT_ON_SRD_PORTS(body, text)
#define WEFT_ON_SHARED_PORTS_AND_SRD(body, text) \
  WEFT_ON_SHARED_PORTS(body, text)               \
  WEFT_ON_SHARED_SRD(body, text)
#define WEFT_ON_EACH_WIRE_AND_SRD(body, text) \
  WEFT_ON_EACH_WIRE(body, text)               \
  WEFT_ON_SRD_WIRES(body, text)

}  // namespace weft::test
