// SPDX-License-Identifier: BSD-3-Clause
// Creating and destroying ids; see id.hpp.
#include "lib/adapters/verbs/rdmacm/id.hpp"

#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/bindings.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/channel.hpp"
#include "lib/adapters/verbs/rdmacm/multicast.hpp"

namespace weft::rdmacm {

namespace {

ibv_gid raw_of(const Gid& gid) {
  ibv_gid raw;
  std::memcpy(raw.raw, gid.bytes.data(), gid.bytes.size());
  return raw;
}

ibv_qp_type acceptor_of(QpType initiator) {
  if (initiator == QpType::uc) return IBV_QPT_UC;
  return is_xrc(initiator) ? IBV_QPT_XRC_RECV : IBV_QPT_RC;
}

// Removes the id from its channel. Requests to it that the program has not seen are returned.
std::vector<Id*> leave_channel(Id& id, Channel& channel) {
  std::vector<Id*> unseen;
  const std::lock_guard turn(channel.turn);
  for (const auto& [context, cm] : id.devices) remove_id(channel, cm);
  for (const auto& [context, cm] : id.early.devices) remove_id(channel, cm);
  for (auto at = channel.queue.begin(); at != channel.queue.end();) {
    const rdma_cm_event& event = (*at)->event;
    if (event.id != &id.id && event.listen_id != &id.id) {
      ++at;
      continue;
    }
    if (event.id != &id.id) unseen.push_back(&of(event.id));
    at = channel.queue.erase(at);
  }
  id.early = {};
  id.devices.clear();  // ends or rejects
  collect(channel);    // what that left in the devices' channels
  update_ready(channel);
  return unseen;
}

void destroy(Id& id) {
  Channel& channel = channel_of(id);
  leave_groups(id);
  if (id.id.event != nullptr) rdma_ack_cm_event(id.id.event);
  for (Id* const request : leave_channel(id, channel)) destroy(*request);
  wait_for_acknowledgements(id);
  unbind_port(id);
  if (id.synchronous) close_channel(&channel);
  delete &id;
}

}  // namespace

Id* new_id(Channel* channel, void* context, rdma_port_space ps, ibv_qp_type type) {
  auto made = std::make_unique<Id>();
  made->synchronous = channel == nullptr;
  if (channel == nullptr) channel = open_channel();
  if (channel == nullptr) return nullptr;
  made->id.channel = &channel->channel;
  made->id.context = context;
  made->id.ps = ps;
  made->id.qp_type = type;
  return made.release();
}

Id* new_request(Id& listener, Context& context, const CmEvent& request) {
  const bool connects = request.queue_pair.has_value();
  Channel* const channel = listener.synchronous ? nullptr : &channel_of(listener);
  Id* const made = new_id(channel, listener.id.context, listener.id.ps,
                          connects ? acceptor_of(request.queue_pair->type) : IBV_QPT_UD);
  if (made == nullptr) return nullptr;
  Channel& own = channel_of(*made);
  set_context(*made, context);
  made->devices.push_back({&context, request.id});
  if (listener.synchronous) {
    const Result<CmChannel> moved = channel_on(own, context);
    if (!moved || !request.id.migrate(*moved)) return destroy(*made), nullptr;
  }
  add_id(own, *made, request.id);
  const Gid bound = gid_of(source_of(listener));
  const bool any = is_any(source_of(listener));
  rdma_addr& addresses = made->id.route.addr;
  set_address(addresses.src_storage, any ? context.device.attributes().gid : bound,
              port_of(source_of(listener)));
  set_address(addresses.dst_storage, request.id.peer_gid(), request.id.peer_port());
  made->destination = request.id.peer_gid();
  addresses.addr.ibaddr.dgid = raw_of(made->destination);
  return made;
}

void set_context(Id& id, Context& context) {
  id.context = &context;
  id.id.verbs = context.verbs;
  id.id.port_num = 1;
  if (id.id.pd == nullptr) id.id.pd = default_pd(context);
  rdma_ib_addr& addresses = id.id.route.addr.addr.ibaddr;
  addresses.sgid = raw_of(context.device.attributes().gid);
  addresses.pkey = 0xFFFF;
}

void stop_listening_early(Id& id) {
  Channel& channel = channel_of(id);
  const std::lock_guard turn(channel.turn);
  for (const auto& [context, cm] : id.early.devices) remove_id(channel, cm);
  id.early = {};
}

Result<void> create_on_device(Id& id) {
  if (!id.devices.empty()) return {};
  Channel& channel = channel_of(id);
  const std::lock_guard turn(channel.turn);
  const Result<CmChannel> on = channel_on(channel, *id.context);
  if (!on) return on.error();
  const Result<CmId> made =
      on->create_id(is_of_datagrams(id) ? CmService::datagrams : CmService::connections);
  if (!made) return made.error();
  if (const Result<void> bound = made->bind(port_of(source_of(id))); !bound) return bound;
  add_id(channel, id, *made);
  id.devices.push_back({id.context, *made});
  return {};
}

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space ps) {
  return guarded("rdma_create_id", [&] {
    if (id == nullptr) return refuse(EINVAL, "rdma_create_id", "id is null");
    const bool datagrams = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
    if (!datagrams && ps != RDMA_PS_TCP)
      return refuse(ps == RDMA_PS_IB ? EOPNOTSUPP : EINVAL, "rdma_create_id",
                    "the port space is not RDMA_PS_TCP, _UDP or _IPOIB");
    Id* const made = new_id(channel != nullptr ? &of(channel) : nullptr, context, ps,
                            datagrams ? IBV_QPT_UD : IBV_QPT_RC);
    if (made == nullptr) return -1;
    *id = &made->id;
    return 0;
  });
}

int rdma_destroy_id(rdma_cm_id* id) {
  return guarded("rdma_destroy_id", [&] { return destroy(of(id)), 0; });
}
