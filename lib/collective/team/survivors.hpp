// SPDX-License-Identifier: BSD-3-Clause
// Who is left: an attempt to make a group of the survivors of another. All that is agreed stands in
// the store, whose keys keep their first value; so do the numbers of the attempts, and a rank that
// tries again finds the others whatever it knows itself.
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
    member,    // the members are agreed, this rank is one of them: they are to connect
    excluded,  // they have gone on without this rank
    finished,  // it has failed, or this rank's group was made before: the next attempt counts
  };
  struct Entry {
    Standing standing = Standing::finished;
    std::vector<uint32_t> members;
  };
  // Says that this rank is there, and waits until all came whose processes have not ended, or for
  // `patience`. Who came until then are the members, unless another rank has counted others before.
  // Errors: those of the store.
  Result<Entry> enter(Team& team, Duration patience);
  // Says whether the group is made; who says so first counts. Returns what counts.
  Result<bool> publish_outcome(bool made);

  static constexpr std::string_view kGroup = "/group";
  std::string group_name() const { return name_ + std::string(kGroup); }

 private:
  Result<std::vector<uint32_t>> gather(Team& team, Duration patience);
  // None if there are none yet.
  Result<std::optional<bool>> outcome(Duration limit);
  Result<std::vector<uint32_t>> members(Duration limit);
  Result<bool> has_joined(uint32_t rank);
  std::string key(uint32_t rank) const { return name_ + "/" + std::to_string(rank); }

  const uint32_t rank_, ranks_;
  Store& store_;
  std::string name_;
};

}  // namespace weft::collective
