// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of ids: the GID of a group is its IP address (RoCE v2), so that joining needs no
// message to anyone. The queue pair of the id is attached, and IGMP and MLD are the port's.
#include "lib/adapters/verbs/rdmacm/multicast.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/channel.hpp"
#include "lib/adapters/verbs/rdmacm/queue_pair.hpp"
#include "weft/ah.hpp"

namespace weft::rdmacm {

namespace {

constexpr uint16_t kAnyLid = 0xC000;  // of a group; there are no LIDs on Ethernet

ibv_gid raw_of(const Gid& group) {
  ibv_gid raw;
  std::memcpy(raw.raw, group.bytes.data(), group.bytes.size());
  return raw;
}

int detach(const Id& id, const Membership& membership) {
  if (!membership.attached || id.id.qp == nullptr) return 0;
  const ibv_gid raw = raw_of(membership.group);
  return ibv_detach_mcast(id.id.qp, &raw, kAnyLid);
}

void report(Id& id, const Gid& group, void* context, int error) {
  auto event = std::make_unique<Event>();
  event->event.id = &id.id;
  event->event.event = error == 0 ? RDMA_CM_EVENT_MULTICAST_JOIN : RDMA_CM_EVENT_MULTICAST_ERROR;
  event->event.status = -error;
  event->counted_at = &id;
  rdma_ud_param& ud = event->event.param.ud;
  ud.private_data = context;
  ud.ah_attr = ah_attributes(*id.context, {.destination = group, .traffic_class = id.tos});
  ud.qp_num = kMulticastQpn.value;
  ud.qkey = RDMA_UDP_QKEY;
  const std::lock_guard turn(channel_of(id).turn);
  push(channel_of(id), std::move(event));
}

int join(Id& id, const sockaddr* address, bool receives, void* context) {
  constexpr const char* kCall = "rdma_join_multicast";
  if (id.context == nullptr)
    return refuse(EINVAL, kCall, "the id has no device: rdma_bind_addr or rdma_resolve_addr");
  if (!is_ip(address) || !gid_of(address).is_multicast())
    return refuse(EINVAL, kCall, "the address is not one of a multicast group");
  Membership membership{.group = gid_of(address)};
  int error = 0;
  if (receives && id.id.qp != nullptr) {
    const ibv_gid raw = raw_of(membership.group);
    error = ibv_attach_mcast(id.id.qp, &raw, kAnyLid);
    membership.attached = error == 0;
  }
  if (error == 0) id.groups.push_back(membership);
  report(id, membership.group, context, error);
  return complete(id);
}

}  // namespace

void detach_groups(Id& id) {
  for (Membership& membership : id.groups) {
    (void)detach(id, membership);
    membership.attached = false;
  }
}

void leave_groups(Id& id) {
  detach_groups(id);
  id.groups.clear();
}

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

int rdma_join_multicast(rdma_cm_id* id, sockaddr* addr, void* context) {
  return guarded("rdma_join_multicast", [&] { return join(of(id), addr, true, context); });
}

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr, void* context) {
  return guarded("rdma_join_multicast_ex", [&] {
    const bool valid = attr != nullptr && (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) != 0 &&
                       attr->comp_mask < RDMA_CM_JOIN_MC_ATTR_RESERVED;
    const bool has_flags = valid && (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) != 0;
    if (!valid || (has_flags && attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED))
      return refuse(EINVAL, "rdma_join_multicast_ex", "comp_mask or join_flags is invalid");
    const bool receives = !has_flags || attr->join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER;
    return join(of(id), attr->addr, receives, context);
  });
}

int rdma_leave_multicast(rdma_cm_id* id, sockaddr* addr) {
  return guarded("rdma_leave_multicast", [&] {
    Id& self = of(id);
    const weft::Gid group = is_ip(addr) ? gid_of(addr) : weft::Gid{};
    const auto found = std::find_if(self.groups.begin(), self.groups.end(),
                                    [&](const Membership& m) { return m.group == group; });
    if (found == self.groups.end())
      return refuse(EADDRNOTAVAIL, "rdma_leave_multicast", "the id has not joined that group");
    const int error = detach(self, *found);
    self.groups.erase(found);
    return error == 0 ? 0 : refuse(error, "rdma_leave_multicast", "ibv_detach_mcast failed");
  });
}
