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
  // `p` with `size` bytes at `more` behind its headers.
  void give(const Gid& source, const wire::SrdPacket& p, const void* more, size_t size) {
    std::byte bytes[256];
    std::byte* const end = wire::srd_emit(bytes, p, 0);
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
