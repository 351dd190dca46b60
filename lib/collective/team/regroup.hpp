// SPDX-License-Identifier: BSD-3-Clause
// New groups from a group: the parts of split(), the survivors of shrink(), and grow(), with new
// ranks. Members find each other through the store and open new connections; the old group stays as
// it is.
#pragma once

#include "lib/collective/team/team.hpp"
#include "weft/store.hpp"

namespace weft::collective {

// A first group. `device` is used instead of options.device.
// Errors: those of Communicator::create.
Result<std::shared_ptr<Team>> create_team(Store& store, uint32_t rank, uint32_t ranks,
                                          const CommunicatorOptions& options,
                                          Duration connect_limit, const std::string& device);

// The ranks of one colour, in the order of keys. `colours` and `keys`: by rank, equal on all ranks.
Result<std::shared_ptr<Team>> split(Team& team, Store& store, std::span<const int64_t> colours,
                                    std::span<const int64_t> keys);

// The ranks of `team`, and new ones with higher numbers, which create the same group.
Result<std::shared_ptr<Team>> grow(Team& team, Store& store, uint32_t ranks,
                                   const std::string& name);

// The ranks of `team` that live and call shrink() within `patience` of each other. Errors:
// peer_failed: the others went on without this rank; those of the store.
Result<std::shared_ptr<Team>> shrink(Team& team, Store& store, Duration patience);

}  // namespace weft::collective
