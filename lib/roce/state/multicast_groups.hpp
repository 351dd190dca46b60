// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of an engine and the queue pairs attached to each (IBTA 10.5). Few groups and
// few members are expected: lists, in the order of attachment.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "weft/types.hpp"

namespace weft::roce {

struct QueuePair;

class MulticastGroups {
 public:
  std::span<QueuePair* const> members(const Gid& group) const noexcept {
    const auto found = groups_.find(group);
    if (found == groups_.end()) return {};
    return found->second;
  }

  // No-op for a member.
  void add(const Gid& group, QueuePair& qp) {
    std::vector<QueuePair*>& all = groups_[group];
    if (std::find(all.begin(), all.end(), &qp) == all.end()) all.push_back(&qp);
  }

  // False: not a member.
  bool remove(const Gid& group, QueuePair& qp) noexcept {
    const auto found = groups_.find(group);
    if (found == groups_.end() || std::erase(found->second, &qp) == 0) return false;
    if (found->second.empty()) groups_.erase(found);
    return true;
  }

  // Finds one of the groups of a queue pair. False: there is none.
  bool any_of(QueuePair& qp, Gid& group) const noexcept {
    for (const auto& [address, all] : groups_) {
      if (std::find(all.begin(), all.end(), &qp) == all.end()) continue;
      group = address;
      return true;
    }
    return false;
  }

 private:
  std::map<Gid, std::vector<QueuePair*>> groups_;
};

}  // namespace weft::roce
