// SPDX-License-Identifier: BSD-3-Clause
// New groups out of a group: the parts that split() makes, what is left for shrink(), and what
// grow() makes of it and of new ranks. Members find each other through the store and connect anew;
// the old group stays as it is.
#pragma once

#include "lib/collective/team/team.hpp"
#include "weft/store.hpp"

namespace weft::collective {

// A group from the beginning. `device`: instead of the one of the options, which stay as they are.
// Errors: those of Communicator::create.
Result<std::shared_ptr<Team>> join(Store& store, uint32_t rank, uint32_t ranks,
                                   const CommunicatorOptions& options, Duration connect_limit,
                                   const std::string& device);

// The ranks of one colour, in the order of keys. `colours` and `keys` by rank, the same everywhere.
Result<std::shared_ptr<Team>> split(Team& team, Store& store, std::span<const int64_t> colours,
                                    std::span<const int64_t> keys);

// The ranks of `team`, and new ones with the numbers behind theirs, which create the same group.
Result<std::shared_ptr<Team>> grow(Team& team, Store& store, uint32_t ranks,
                                   const std::string& name);

Result<std::shared_ptr<Team>> shrink(Team& team, Store& store, Duration patience);

}  // namespace weft::collective
