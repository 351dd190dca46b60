// SPDX-License-Identifier: BSD-3-Clause
// Addresses of an id: binding, listening, and resolving a destination to a device and a path.
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/adapters/verbs/rdmacm/bindings.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/channel.hpp"
#include "lib/adapters/verbs/rdmacm/id.hpp"
#include "lib/adapters/verbs/rdmacm/queue_pair.hpp"

namespace weft::rdmacm {

namespace {

bool is_bound(Id& id) { return port_of(source_of(id)) != 0; }

int bind_to(Id& id, const sockaddr* address, const char* call) {
  const bool any = is_any(address);
  const Gid gid = gid_of(address);
  Context* const device = any ? nullptr : device_at(gid);
  if (!any && device == nullptr)
    return refuse(contexts().empty() ? ENODEV : EADDRNOTAVAIL, call,
                  (to_string(gid) + " is not an address of this host").c_str());
  const std::optional<uint16_t> port = bind_port(id, any ? Gid{} : gid, port_of(address));
  if (!port) return refuse(EADDRINUSE, call, "another id of this process has that port");
  std::memcpy(&id.id.route.addr.src_storage, address, length_of(address));
  set_port(source_of(id), *port);
  if (device != nullptr) set_context(id, *device);
  return 0;
}

using Listening = std::vector<Id::OnDevice>;

// Ids that listen on the device of `id`, or on all devices. One that has no connection manager is
// passed over, unless it is the only one. Under the channel's turn.
Result<Listening> listen_on_devices(Id& id) {
  Channel& channel = channel_of(id);
  const uint16_t port = port_of(source_of(id));
  Listening all;
  Result<void> last = Error{Code::not_found, "there is no device: see WEFT_VERBS_DEVICES"};
  for (const auto& context : contexts()) {
    if (id.context != nullptr && id.context != context.get()) continue;
    const Result<CmChannel> on = channel_on(channel, *context);
    const CmService kind = is_of_datagrams(id) ? CmService::datagrams : CmService::connections;
    const Result<CmId> made = on ? on->create_id(kind) : on.error();
    last = made ? made->listen(port) : made.error();
    if (last)
      all.push_back({context.get(), *made});
    else if (last.error().code == Code::address_in_use)
      return last.error();
  }
  if (all.empty()) return last.error();
  for (const auto& [context, cm] : all) add_id(channel, id, cm);
  return all;
}

// A program may tell clients its port, and listen afterwards: what they send in between is for it.
// Who finds the port in use is told by rdma_listen(); of several that share it by
// RDMA_OPTION_ID_REUSEADDR the one has it that listens first.
void listen_early(Id& id) {
  if (id.reuses_address) return;
  const std::lock_guard turn(channel_of(id).turn);
  if (const Result<Listening> all = listen_on_devices(id)) id.early.devices = *all;
}

int listen(Id& id) {
  Channel& channel = channel_of(id);
  const std::lock_guard turn(channel.turn);
  const Result<Listening> all =
      id.early.devices.empty() ? listen_on_devices(id) : std::exchange(id.early.devices, {});
  if (!all) return refuse("rdma_listen", all.error());
  id.devices = *all;
  for (const auto& [context, request] : std::exchange(id.early.requests, {}))
    translate(channel, *context, request);
  return 0;
}

void post(Id& id, rdma_cm_event_type type, int status) {
  const std::lock_guard turn(channel_of(id).turn);
  push(channel_of(id), id, type, status);
}

int resolve(Id& id, const sockaddr* destination) {
  constexpr const char* kCall = "rdma_resolve_addr";
  stop_listening_early(id);
  const bool has_source = source_of(id)->sa_family != AF_UNSPEC && !is_any(source_of(id));
  std::optional<Gid> source;
  if (has_source) source = gid_of(source_of(id));
  std::optional<Path> path = find_path(source, destination, id.context);
  if (!path) {
    refuse(ENODEV, kCall,
           ("no device leads to " + to_string(gid_of(destination)) +
            ": WEFT_VERBS_DEVICES names the devices")
               .c_str());
    post(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
    return complete(id);
  }
  if (!is_bound(id)) {
    const std::optional<uint16_t> port = bind_port(id, path->source, 0);
    if (!port) return refuse(EADDRNOTAVAIL, kCall, "no port is free");
    set_address(id.id.route.addr.src_storage, path->source, *port);
  } else if (!has_source) {
    set_address(id.id.route.addr.src_storage, path->source, port_of(source_of(id)));
  }
  set_context(id, *path->context);
  std::memcpy(&id.id.route.addr.dst_storage, destination, length_of(destination));
  std::memcpy(id.id.route.addr.addr.ibaddr.dgid.raw, path->destination.bytes.data(), 16);
  id.destination = path->destination;
  const uint16_t port = port_of(destination);
  id.resolves_itself = port == 0 || id.destination.is_multicast();
  if (id.resolves_itself) {
    post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    return complete(id);
  }
  Result<void> begun = create_on_device(id);
  if (begun) begun = cm_of(id).resolve_address(text_of(id.destination, port));
  if (begun) return complete(id);
  id.id.route.addr.dst_storage.ss_family = AF_UNSPEC;  // the program may try another one
  return refuse(kCall, begun.error());
}

void describe_path(Id& id) {
  const rdma_ib_addr& addresses = id.id.route.addr.addr.ibaddr;
  id.path.sgid = addresses.sgid;
  id.path.dgid = addresses.dgid;
  id.path.hop_limit = kHopLimit;
  id.path.traffic_class = id.tos;
  id.path.reversible = 1;
  id.path.numb_path = 1;
  id.path.pkey = addresses.pkey;
  id.path.mtu_selector = 2;  // exactly
  id.path.mtu = static_cast<uint8_t>(path_mtu_of(*id.context));
  id.id.route.path_rec = &id.path;
  id.id.route.num_paths = 1;
}

}  // namespace

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

int rdma_bind_addr(rdma_cm_id* id, sockaddr* addr) {
  return guarded("rdma_bind_addr", [&] {
    if (!is_ip(addr))
      return refuse(EINVAL, "rdma_bind_addr", "the address is not of AF_INET or AF_INET6");
    if (is_bound(of(id))) return refuse(EINVAL, "rdma_bind_addr", "the id is bound already");
    const int bound = bind_to(of(id), addr, "rdma_bind_addr");
    if (bound == 0) listen_early(of(id));
    return bound;
  });
}

int rdma_listen(rdma_cm_id* id, int) {
  return guarded("rdma_listen", [&] {
    Id& self = of(id);
    if (!self.devices.empty())
      return refuse(EINVAL, "rdma_listen", "the id listens, or connects, already");
    if (!is_bound(self)) {
      sockaddr_in any{};
      any.sin_family = AF_INET;
      const int bound = bind_to(self, reinterpret_cast<sockaddr*>(&any), "rdma_listen");
      if (bound != 0) return bound;
    }
    return listen(self);
  });
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* src_addr, sockaddr* dst_addr, int) {
  return guarded("rdma_resolve_addr", [&] {
    Id& self = of(id);
    if (!is_ip(dst_addr) || (src_addr != nullptr && !is_ip(src_addr)))
      return refuse(EINVAL, "rdma_resolve_addr", "an address is not of AF_INET or AF_INET6");
    if (destination_of(self)->sa_family != AF_UNSPEC)
      return refuse(EINVAL, "rdma_resolve_addr", "the id has a destination already");
    if (src_addr != nullptr && !is_bound(self)) {
      const int bound = bind_to(self, src_addr, "rdma_resolve_addr");
      if (bound != 0) return bound;
    }
    return resolve(self, dst_addr);
  });
}

int rdma_resolve_route(rdma_cm_id* id, int) {
  return guarded("rdma_resolve_route", [&] {
    Id& self = of(id);
    if (self.context == nullptr || destination_of(self)->sa_family == AF_UNSPEC)
      return refuse(EINVAL, "rdma_resolve_route", "rdma_resolve_addr comes before");
    describe_path(self);
    if (self.resolves_itself) {
      post(self, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
      return complete(self);
    }
    const weft::Result<void> begun = cm_of(self).resolve_route();
    return begun ? complete(self) : refuse("rdma_resolve_route", begun.error());
  });
}

__be16 rdma_get_src_port(rdma_cm_id* id) { return htons(port_of(source_of(of(id)))); }

__be16 rdma_get_dst_port(rdma_cm_id* id) { return htons(port_of(destination_of(of(id)))); }
