// SPDX-License-Identifier: BSD-3-Clause
// Agreement on the survivors of a group: an attempt to make a new group of them. Everything that is
// agreed is in the store, whose keys keep their first value. Attempts are numbered there, so a
// rank that tries again finds the others, whatever attempts it has seen.
#pragma once

#include "lib/collective/team/team.hpp"
#include "weft/store.hpp"

namespace weft::collective {

std::string to_text(const std::vector<uint32_t>& ranks);

class Attempt {
 public:
  // `number` from 1.
  Attempt(const Team& team, Store& store, uint32_t number);

  enum class Standing {
    member,    // this rank is one of the agreed members, which connect next
    excluded,  // the members continue without this rank
    finished,  // it has failed, or has made this rank's present group: try the next
  };
  struct Entry {
    Standing standing = Standing::finished;
    std::vector<uint32_t> members;
  };
  // Publishes this rank and waits for all ranks whose processes have not ended, at most `patience`.
  // The ranks seen by then are the members, unless another rank has published a list before.
  // Errors: those of the store.
  Result<Entry> enter(Team& team, Duration patience);
  // Publishes whether the group is made. Returns the value that was published first.
  Result<bool> publish_outcome(bool made);

  static constexpr std::string_view kGroup = "/group";
  std::string group_name() const { return name_ + std::string(kGroup); }

 private:
  Result<std::vector<uint32_t>> gather(Team& team, Duration patience);
  // None if it is not published yet.
  Result<std::optional<bool>> outcome(Duration limit);
  Result<std::vector<uint32_t>> members(Duration limit);
  Result<bool> has_joined(uint32_t rank);
  std::string key(uint32_t rank) const { return name_ + "/" + std::to_string(rank); }

  const uint32_t rank_, ranks_;
  Store& store_;
  std::string name_;
};

}  // namespace weft::collective
