// SPDX-License-Identifier: BSD-3-Clause
// An SRD engine without a network: tests make the packets that it receives.
#pragma once

#include <cstring>

#include "lib/srd/engine.hpp"
#include "tests/fuzz/no_port.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {

// One queue pair, and one word of memory that others may change.
struct SrdLone {
  static constexpr uint32_t kDomain = 1;

  fuzz::NoPort port{Gid::from_ipv4(10, 0, 0, 1), no_integrity()};
  base::SecureRandom random{1};
  srd::Engine engine;
  transport::CompletionQueue cq{256};
  srd::QueuePair* qp;
  uint64_t word = 0;
  uint32_t key;
  Instant now;
  static constexpr uint64_t kProcess = 77;  // of each peer
  uint64_t stamp = engine.incarnations.take_stamp(now);

  explicit SrdLone(uint32_t max_send_wr = 16, const srd::Config& config = {})
      : engine(port, config, random) {
    key = engine.keys().insert(reinterpret_cast<std::byte*>(&word), sizeof word, Access::all,
                               kDomain);
    qp = *engine.create_qp({.type = QpType::srd,
                            .domain = kDomain,
                            .send_cq = &cq,
                            .recv_cq = &cq,
                            .max_send_wr = max_send_wr});
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      QueuePairAttributes change;
      change.state = state;
      change.access = Access::all;
      REQUIRE(engine.modify_qp(*qp, change));
    }
  }
  static transport::Capabilities no_integrity() {
    transport::Capabilities c;
    c.integrity_bits = 0;
    return c;
  }
  // By what packets of another endpoint name this one. give() introduces their sender.
  uint64_t secret(const Gid& of, uint32_t prefix) {
    return engine.incarnations.issue(of, prefix, stamp);
  }
  // The endpoint of `to` has answered a hello, with this incarnation.
  void welcome(const Gid& of, uint32_t prefix, uint64_t incarnation) {
    REQUIRE(engine.accept(of, prefix, {incarnation, 1, kProcess}, now));
  }
  // `p` with `size` bytes at `more` behind its headers.
  void give(const Gid& source, const wire::SrdPacket& p, const void* more, size_t size) {
    std::byte bytes[256];
    wire::SrdPacket packet = p;
    wire::SrdIntroduction introduction;
    introduction.stamp = stamp;
    introduction.process = kProcess;
    if (p.incarnation != 0 && wire::is_sequenced(p.opcode)) packet.introduction = &introduction;
    std::byte* const end = wire::srd_emit(bytes, packet, 0);
    if (size != 0) std::memcpy(end, more, size);
    weft::transport::Path path;
    path.source = source;
    path.destination = port.address();
    weft::transport::Frame frame;
    frame.path = &path;
    frame.bytes = bytes;
    frame.length = static_cast<uint32_t>(end - bytes) + static_cast<uint32_t>(size);
    engine.receive({&frame, 1}, now);
  }
};

}  // namespace weft::test
