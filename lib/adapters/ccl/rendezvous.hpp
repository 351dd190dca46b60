// SPDX-License-Identifier: BSD-3-Clause
// Where the ranks of a communicator meet: each process serves a store over TCP, whose address goes
// into the ids that it makes. Each rank tells the others the address of its own, so that those that
// are left after a failure can meet at one of them.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "weft/nccl_compat.h"
#include "weft/store.hpp"

namespace weft::ccl {

// A store's address as ranks exchange it: text, filled up with zeros.
using Address = std::array<char, 64>;

// A store and a name in it that no other communicator has.
struct Meeting {
  std::string store;
  std::string name;
};

// The store that this process serves, from the first call on until it ends, at the address of
// `device` or, if that has none, at 127.0.0.1.
Result<std::string> served_store(const std::string& device);

Result<ncclUniqueId> new_id(const std::string& device);
// Error: invalid_argument (not made by ncclGetUniqueId() of this library).
Result<Meeting> read_id(const ncclUniqueId& id);

// A client of a store whose waits end early when `giving_up` becomes true.
Result<std::unique_ptr<Store>> reach_store(const std::string& address,
                                           const std::atomic<bool>& giving_up);

}  // namespace weft::ccl
