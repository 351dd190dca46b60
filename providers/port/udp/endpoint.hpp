// SPDX-License-Identifier: BSD-3-Clause
// What a port has of an address: the socket that receives there and, where others have a part of it
// too, its place in their group. Others are processes on an interface's address, or the engines of
// one device, which share whatever address that has.
#pragma once

#include <memory>

#include "lib/transport/port.hpp"
#include "providers/port/udp/address.hpp"
#include "providers/port/udp/group.hpp"
#include "providers/port/udp/options.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port::udp {

struct Endpoint {
  LocalAddress local;
  ReceiveSocket socket;
  std::unique_ptr<AddressGroup> group;  // null: the address is ours alone
};

// Errors: not_found (no such address), invalid_argument (what it may not be with), address_in_use,
// no_memory (all parts are taken), io_error.
Result<Endpoint> open_endpoint(const transport::PortOptions& options, const Options& keys);

}  // namespace weft::port::udp
