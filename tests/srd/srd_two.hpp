// SPDX-License-Identifier: BSD-3-Clause
// Two SRD stations: `a` sends requests, `b` responds.
#pragma once

#include "tests/srd/srd_world.hpp"

namespace weft::test {

struct SrdTwo {
  SrdWorld world;
  SrdStation& a;
  SrdStation& b;

  explicit SrdTwo(const SrdOptions& options = {}) : world(options), a(world[0]), b(world[1]) {}

  // Of `a` towards `b`'s memory.
  SendRequest request(Opcode opcode, uint64_t id, std::span<const Sge> sges, size_t remote = 0) {
    SendRequest r;
    r.id = id;
    r.opcode = opcode;
    r.sges = sges;
    r.remote_address = b.address_of(remote);
    r.rkey = RKey{b.key()};
    return r;
  }
};

}  // namespace weft::test
