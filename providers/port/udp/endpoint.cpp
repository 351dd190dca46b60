// SPDX-License-Identifier: BSD-3-Clause
// Decides how an address is taken: for one device alone, or as a part of it.
#include "providers/port/udp/endpoint.hpp"

namespace weft::port::udp {
namespace {

Result<Endpoint> bind(Endpoint endpoint, const Options& keys) {
  Result<ReceiveSocket> socket = open_receive_socket(endpoint.local, keys);
  if (!socket) return socket.error();
  endpoint.socket = std::move(*socket);
  if (endpoint.group != nullptr) endpoint.group->enter(endpoint.socket.socket.fd());
  return endpoint;
}

// A part of the address, from one slot to another.
Result<Endpoint> bind_part(const LocalAddress& local, const Options& keys, uint8_t first,
                           uint8_t last) {
  Result<std::unique_ptr<AddressGroup>> group = AddressGroup::join(local, first, last);
  if (!group) return group.error();
  return bind({local, {}, std::move(*group)}, keys);
}

bool taken(const Error& error) noexcept {
  return error.code == Code::no_memory || error.code == Code::address_in_use;
}

// For engine 0: a loopback address that no other device shares.
Result<Endpoint> bind_loopback(LocalAddress local, const Options& keys) {
  const bool any = local.claim == Claim::any_loopback;
  bool first = true;
  for (local.claim = Claim::exclusive;; first = false) {
    Result<Endpoint> mine = bind_part(local, keys, 1, 1);
    if (mine) return mine;
    if (!taken(mine.error())) return mine;
    if (!any) return in_use(local);
    const bool none = first && is_held_everywhere(local.port);
    if (!none && next_loopback(local.gid)) continue;
    local.claim = Claim::any_loopback;
    return in_use(local);
  }
}

// The loopback address of our user: the one where it has devices, else the first that is free.
Result<Endpoint> bind_shared_loopback(LocalAddress local, const Options& keys,
                                      const transport::PortOptions& options) {
  local.claim = Claim::shared;
  for (const bool known : {true, false})
    for (uint32_t i = 0; i < kSharedLoopbacks; ++i) {
      local.gid = shared_loopback(i);
      if (known && !GroupTable::exists(local)) continue;
      Result<Endpoint> part = bind_part(local, keys, options.first_slot, options.last_slot);
      if (part || !taken(part.error())) return part;
      if (i == 0 && is_held_everywhere(local.port)) break;
    }
  local.claim = Claim::any_loopback;
  return in_use(local);
}

// Telemetry needs an address of the device's own, and so does a switch between devices.
bool is_shared(const LocalAddress& local, const transport::PortOptions& options,
               const Options& keys) noexcept {
  if (local.claim == Claim::shared) return true;
  if (keys.shared != kWhereDecides) return keys.shared == 1;
  return local.claim == Claim::exclusive && keys.switched == 0 && options.telemetry_port == 0;
}

}  // namespace

Result<Endpoint> open_endpoint(const transport::PortOptions& options, const Options& keys) {
  Result<LocalAddress> local = resolve(options.where);
  if (!local) return local.error();
  local->port = options.udp_port;
  if (keys.switched != 0) {
    if (local->claim != Claim::exclusive || keys.shared == 1)
      return Error{Code::invalid_argument,
                   "udp.switched=1 needs the loopback address that the switch serves, like "
                   "udp:127.9.0.1, for this device alone"};
    local->shift = kSwitchedShift;
  }
  if (local->claim == Claim::shared && keys.shared == 0)
    return Error{Code::invalid_argument,
                 "udp.shared=0 needs a loopback address: udp:" + options.where +
                     " is shared with the other devices of this user"};
  local->engines = options.engines > 1;
  if (options.first != nullptr) {
    local->gid = options.first->address();
    local->claim = Claim::engine;
    return bind_part(*local, keys, options.first_slot, options.last_slot);
  }
  if (is_shared(*local, options, keys)) {
    if (local->claim == Claim::any_loopback) return bind_shared_loopback(*local, keys, options);
    local->claim = Claim::shared;
    return bind_part(*local, keys, options.first_slot, options.last_slot);
  }
  if (local->engines) return bind_loopback(*local, keys);
  return bind({*local, {}, nullptr}, keys);
}

}  // namespace weft::port::udp
