// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of UD queue pairs.
#include <cstring>

#include "lib/adapters/verbs/queue/ah.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

// `step` changes the queue pair, and then `note` its list of groups. The list grows before, since
// memory may run out.
template <class Step, class Note>
int change_group(const char* call, ibv_qp* qp, const ibv_gid* gid, Step step, Note note) noexcept {
  return without_exceptions(call, [&] {
    Gid group;
    std::memcpy(group.bytes.data(), gid->raw, sizeof gid->raw);
    if (qp->qp_type != IBV_QPT_UD)
      return refuse(EINVAL, call, "queue pair 0x%x is not a UD queue pair", qp->qp_num);
    if (!group.is_multicast())
      return refuse(EINVAL, call, "%s is not a multicast group", to_string(group).c_str());
    Qp& self = of(qp);
    group = group_on(*self.context, group);
    const std::lock_guard guard(self.context->entry->lock);
    self.groups.reserve(self.groups.size() + 1);
    const auto changed = step(self.pair, group);
    if (!changed && changed.error().code == Code::not_found)
      return refuse(EINVAL, call, "%s", changed.error().message.c_str());
    if (!changed) return refuse(call, changed.error());
    std::erase(self.groups, group);
    note(self.groups, group);
    return 0;
  });
}

}  // namespace
}  // namespace weft::drop_in

using namespace weft::drop_in;

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  WEFT_FORWARD(qp->context, ibv_attach_mcast, qp, gid, lid);
  return change_group(
      "ibv_attach_mcast", qp, gid,
      [](const auto& pair, const auto& group) { return pair.attach_multicast(group); },
      [](auto& groups, const auto& group) { groups.push_back(group); });
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  WEFT_FORWARD(qp->context, ibv_detach_mcast, qp, gid, lid);
  return change_group(
      "ibv_detach_mcast", qp, gid,
      [](const auto& pair, const auto& group) { return pair.detach_multicast(group); },
      [](auto&, const auto&) {});
}
