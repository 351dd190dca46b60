// SPDX-License-Identifier: BSD-3-Clause
// fid_poll: which of several completion queues and counters have something new.
#include <algorithm>
#include <mutex>
#include <vector>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/cntr.hpp"
#include "lib/adapters/fi/common/cq.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {
namespace {

struct Member {
  fid* object;
  uint64_t seen = 0;  // a counter's value and errors at the last poll
};

// Any thread.
struct Poll final : fid_poll {
  Poll(Domain& parent, fi_ops& fid_ops, fi_ops_poll& poll_ops) noexcept
      : fid_poll{.fid = {.fclass = FI_CLASS_POLL, .context = nullptr, .ops = &fid_ops},
                 .ops = &poll_ops},
        domain(parent) {
    domain.retain();
  }
  Domain& domain;
  std::mutex lock;
  std::vector<Member> members;
};

Cq& cq_of(fid* object) noexcept { return *static_cast<Cq*>(reinterpret_cast<fid_cq*>(object)); }
Cntr& cntr_of(fid* object) noexcept {
  return *static_cast<Cntr*>(reinterpret_cast<fid_cntr*>(object));
}
Poll& of(fid_poll* poll) noexcept { return *static_cast<Poll*>(poll); }

std::atomic<int>& users_of(fid* object) noexcept {
  return object->fclass == FI_CLASS_CQ ? cq_of(object).users : cntr_of(object).users;
}

bool has_changed(Member& member) noexcept {
  if (member.object->fclass == FI_CLASS_CQ) {
    Cq& cq = cq_of(member.object);
    if (cq.unread() == 0) cq.waiting.progress();
    return cq.unread() != 0;
  }
  Cntr& cntr = cntr_of(member.object);
  cntr.waiting.progress();
  const uint64_t now = cntr.value.load() + cntr.errors.load();
  return std::exchange(member.seen, now) != now;
}

int poll(fid_poll* fid, void** contexts, int count) noexcept {
  Poll& set = of(fid);
  const std::lock_guard hold(set.lock);
  int found = 0;
  for (Member& member : set.members)
    if (found < count && has_changed(member)) contexts[found++] = member.object->context;
  return found;
}

int add(fid_poll* fid, ::fid* object, uint64_t) noexcept {
  return guarded([&]() -> int {
    if (object->fclass != FI_CLASS_CQ && object->fclass != FI_CLASS_CNTR) return -FI_EINVAL;
    Poll& set = of(fid);
    const std::lock_guard hold(set.lock);
    set.members.push_back({.object = object});
    ++users_of(object);
    return 0;
  });
}

int remove(fid_poll* fid, ::fid* object, uint64_t) noexcept {
  Poll& set = of(fid);
  const std::lock_guard hold(set.lock);
  const auto at = std::find_if(set.members.begin(), set.members.end(),
                               [&](const Member& member) { return member.object == object; });
  if (at == set.members.end()) return -FI_EINVAL;
  set.members.erase(at);
  --users_of(object);
  return 0;
}

int close(fid* fid) noexcept {
  Poll& set = of(reinterpret_cast<fid_poll*>(fid));
  for (const Member& member : set.members) --users_of(member.object);
  Domain& domain = set.domain;
  delete &set;
  domain.release();
  return 0;
}

fi_ops kFidOps = fid_ops(close);
fi_ops_poll kOps = {.size = sizeof(fi_ops_poll), .poll = poll, .poll_add = add, .poll_del = remove};

}  // namespace

int open_poll(fid_domain* domain, fi_poll_attr* attr, fid_poll** out) noexcept {
  return guarded([&]() -> int {
    if (attr != nullptr && attr->flags != 0) return -FI_EINVAL;
    *out = new Poll(*static_cast<Domain*>(domain), kFidOps, kOps);
    return 0;
  });
}

}  // namespace weft::fi
