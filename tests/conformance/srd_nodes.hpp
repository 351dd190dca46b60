// SPDX-License-Identifier: BSD-3-Clause
// Two SRD devices with a queue pair each, and requests from one to the other.
#pragma once

#include "tests/conformance/node.hpp"

namespace weft::test {

struct SrdNode : Node {
  explicit SrdNode(const std::string& spec, size_t size = 1u << 20)
      : Node(spec, QpType::srd, size) {
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      QueuePairAttributes change;
      change.state = state;
      if (state == QpState::init) change.access = Access::all;
      REQUIRE(qp.modify(change));
    }
  }
};

struct Two {
  SrdNode a, b;
  AddressHandle to;
  explicit Two(const std::string& spec) : Two(spec, spec) {}
  Two(const std::string& mine, const std::string& theirs) : a(mine), b(theirs), to(b.handle()) {}
  explicit Two(Wire wire) : Two(device_string(wire)) {}

  SendRequest request(Opcode opcode, uint64_t id, std::span<const Sge> sges, size_t remote) const {
    SendRequest r = b.request(opcode, id, sges, remote);
    r.to = &to;
    r.remote_qpn = b.qp.number();
    return r;
  }
  Completion wait(Node& node) { return next_of(node, &node == &a ? b : a); }
  Completion finish(const SendRequest& r) {
    REQUIRE(a.qp.post_send(r));
    return wait(a);
  }
};

}  // namespace weft::test
