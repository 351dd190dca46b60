// SPDX-License-Identifier: BSD-3-Clause
// The first engine of a device on a loopback address owns it by the lowest part of the queue pair
// numbers: no other process gets another part then.
#include "providers/port/udp/endpoint.hpp"

namespace weft::port::udp {
namespace {

Result<Endpoint> bind(Endpoint endpoint, const Options& keys) {
  Result<ReceiveSocket> socket = open_receive_socket(endpoint.local, keys);
  if (!socket) return socket.error();
  endpoint.socket = std::move(*socket);
  if (endpoint.group != nullptr) endpoint.group->steer(endpoint.socket.socket.fd());
  return endpoint;
}

// A part of the address, from one slot to another.
Result<Endpoint> bind_part(const LocalAddress& local, const Options& keys, uint8_t first,
                           uint8_t last) {
  Result<std::unique_ptr<AddressGroup>> group = AddressGroup::join(local, first, last);
  if (!group) return group.error();
  return bind({local, {}, std::move(*group)}, keys);
}

// For engine 0: a loopback address that no other process shares.
Result<Endpoint> bind_loopback(LocalAddress local, const Options& keys) {
  const bool any = local.claim == Claim::any_loopback;
  bool first = true;
  for (local.claim = Claim::exclusive;; first = false) {
    Result<Endpoint> mine = bind_part(local, keys, 1, 1);
    if (mine) return mine;
    const bool taken =
        mine.error().code == Code::no_memory || mine.error().code == Code::address_in_use;
    if (!taken) return mine;
    if (!any) return in_use(local);
    const bool none = first && is_held_everywhere(local.port);
    if (!none && next_loopback(local.gid)) continue;
    local.claim = Claim::any_loopback;
    return in_use(local);
  }
}

}  // namespace

Result<Endpoint> open_endpoint(const transport::PortOptions& options, const Options& keys) {
  Result<LocalAddress> local = resolve(options.where);
  if (!local) return local.error();
  local->port = options.udp_port;
  if (keys.switched != 0) {
    if (local->claim != Claim::exclusive)
      return Error{Code::invalid_argument,
                   "udp.switched=1 needs the loopback address that the switch serves, like "
                   "udp:127.9.0.1"};
    local->shift = kSwitchedShift;
  }
  local->engines = options.engines > 1;
  if (options.first != nullptr) {
    local->gid = options.first->address();
    local->claim = Claim::shared;
  } else if (local->engines && local->claim != Claim::shared) {
    return bind_loopback(*local, keys);
  }
  if (local->claim == Claim::shared)
    return bind_part(*local, keys, options.first_slot, options.last_slot);
  return bind({*local, {}, nullptr}, keys);
}

}  // namespace weft::port::udp
