// SPDX-License-Identifier: BSD-3-Clause
// The keys of the shm port in a device string, with their defaults and ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/transport/port.hpp"
#include "lib/transport/shared_address.hpp"
#include "providers/port/shm/ring.hpp"
#include "weft/result.hpp"

namespace weft::port::shm {

enum class ByReference : uint8_t {
  never,
  measured,  // where it is faster than copying through the ring on this machine
  always,    // wherever the kernel permits
};

// The network port that a port listens beside.
struct Beside {
  Gid address;
  transport::Slot slot = 0;  // 0: it shares the address with none
};

struct Options {
  std::string job = "default";
  bool shared = false;  // the address is that of all devices of the job that say so
  ByReference by_reference = ByReference::measured;
  uint32_t threshold = 16384;  // payload bytes from which `always` goes by reference
  uint32_t mtu = 0;            // 0 = the fastest
  std::optional<Beside> beside;
  RingGeometry ring{256, 8u << 20};  // slots: few enough to stay in the L1 cache
};

// An unknown key or a value out of range is an error that lists the valid ones.
Result<Options> parse_options(const transport::PortOptions& options);

}  // namespace weft::port::shm
