// SPDX-License-Identifier: BSD-3-Clause
// Two devices of provider libfabric in one process, a connected queue pair on each.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"
#include "weft/weft.hpp"

namespace weft::test {

// Providers of libfabric that any machine has.
inline const std::vector<std::string> kDevices = {
    "libfabric:tcp+ofi_rxm,node=127.0.0.1", "libfabric:shm", "libfabric:sockets,node=127.0.0.1"};

struct End {
  explicit End(const std::string& spec, const QueuePairOptions& sizes = {})
      : device(*Device::open(spec)),
        cq(*device.completion_queue({.capacity = 4096})),
        pd(*device.protection_domain()),
        memory(1 << 20),
        region(*pd.register_memory(memory.data(), memory.size(), Access::all)) {
    QueuePairOptions options = sizes;
    options.send_cq = options.recv_cq = cq;
    qp = *pd.queue_pair(options);
    REQUIRE(qp.modify({.state = QpState::init, .pkey_index = 0, .port = 1, .access = Access::all}));
  }

  void meet(const End& peer) {
    REQUIRE(qp.modify({.state = QpState::rtr,
                       .path = AddressVector{.destination = peer.device.attributes().gid},
                       .path_mtu = 1024,
                       .dest_qpn = peer.qp.number(),
                       .rq_psn = Psn{},
                       .max_dest_rd_atomic = 16,
                       .min_rnr_timer = 12}));
    REQUIRE(qp.modify({.state = QpState::rts,
                       .sq_psn = Psn{},
                       .max_rd_atomic = 16,
                       .timeout = 14,
                       .retry_count = 7,
                       .rnr_retry = 7}));
  }

  uint64_t address(size_t at) const { return reinterpret_cast<uintptr_t>(memory.data() + at); }
  Sge sge(size_t at, uint32_t length) const {
    return {const_cast<char*>(memory.data()) + at, length, region.lkey()};
  }
  void receive(uint64_t id, size_t at, uint32_t length) const {
    const Sge into = sge(at, length);
    REQUIRE(qp.post_recv({.id = id, .sges = {&into, 1}}));
  }
  SendRequest request(uint64_t id, Opcode opcode, const Sge& of, const End& peer,
                      size_t remote) const {
    return {.id = id,
            .opcode = opcode,
            .sges = {&of, 1},
            .remote_address = peer.address(remote),
            .rkey = peer.region.rkey()};
  }
  Completion next() const {
    Completion done;
    if (cq.wait({&done, 1}, Duration::from_s(20)) != 1) FAIL("no completion within 20 s");
    return done;
  }

  Device device;
  CompletionQueue cq;
  ProtectionDomain pd;
  std::vector<char> memory;
  MemoryRegion region;
  QueuePair qp;
};

struct TwoEnds {
  explicit TwoEnds(const std::string& spec, const QueuePairOptions& sizes = {})
      : a(spec, sizes), b(spec, sizes) {
    a.meet(b);
    b.meet(a);
  }
  End a, b;
};

}  // namespace weft::test
