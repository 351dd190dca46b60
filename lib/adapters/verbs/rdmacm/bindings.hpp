// SPDX-License-Identifier: BSD-3-Clause
// The ports that ids of this process are bound to.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/adapters/verbs/rdmacm/objects.hpp"

namespace weft::rdmacm {

// Binds the id to a port of `address` (0: any address); port 0 picks one. Empty: another id has it.
std::optional<uint16_t> bind_port(const Id& id, const Gid& address, uint16_t port);
void unbind_port(const Id& id);

}  // namespace weft::rdmacm
