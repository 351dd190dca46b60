// SPDX-License-Identifier: BSD-3-Clause
// Names of endpoints as GID and queue pair number, by which weft's programs introduce themselves,
// and back:
//
//   FI_SOCKADDR_IN, FI_SOCKADDR_IN6   the address and the port
//   FI_ADDR_STR of shm                "fi_shm://PID:UID:INDEX": PID and UID in a GID that begins
//                                     with fd and "shm", INDEX + 2 (0 and 1 are taken)
//
// Other formats have no room there: such endpoints are refused by name.
#pragma once

#include <cstddef>
#include <vector>

#include "providers/libfabric/fabric.hpp"
#include "weft/types.hpp"

namespace weft::libfabric {

struct EndpointName {
  Gid gid;
  QpNum number;
  bool operator==(const EndpointName&) const = default;
};

// `format`: fi_info::addr_format. Error: not_supported.
Result<EndpointName> from_bytes(uint32_t format, const std::vector<std::byte>& bytes);
Result<std::vector<std::byte>> to_bytes(uint32_t format, const EndpointName& name);

// The address of endpoints of shm that this process opens.
Gid shm_address();

// What fi_getname says of an open endpoint.
Result<EndpointName> name_of(uint32_t format, fid_ep& endpoint);

}  // namespace weft::libfabric
