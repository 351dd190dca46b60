// SPDX-License-Identifier: BSD-3-Clause
// A device with one queue pair and memory, for services whose queue pairs are not in pairs.
#pragma once

#include "tests/conformance/fixture.hpp"

namespace weft::test {

struct Node {
  Node(const std::string& spec, QpType type, size_t size = 1u << 20)
      : side(spec), qp(side.queue_pair({.type = type})), memory(side, size) {}

  AddressHandle handle() const {
    return side.pd.address_handle({.destination = side.device.attributes().gid});
  }
  void expect(uint64_t id, size_t offset, size_t length) const {
    const Sge sge = memory.sge(offset, length);
    REQUIRE(qp.post_recv({.id = id, .sges = {&sge, 1}}));
  }
  // A request that may go into this node's memory, from `remote` on.
  SendRequest request(Opcode opcode, uint64_t id, std::span<const Sge> sges, size_t remote) const {
    SendRequest r;
    r.id = id;
    r.opcode = opcode;
    r.sges = sges;
    r.remote_address = memory.address(remote);
    r.rkey = memory.region.rkey();
    return r;
  }

  Side side;
  QueuePair qp;
  Buffer memory;
};

// The next completion of `node`, while both sides are polled.
inline Completion next_of(Node& node, Node& other) {
  if (!pump_until({&node.side, &other.side}, [&] { return !node.side.got.empty(); }))
    FAIL("no completion after half a minute");
  const Completion c = node.side.got.front();
  node.side.got.erase(node.side.got.begin());
  return c;
}

}  // namespace weft::test
