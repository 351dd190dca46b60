// SPDX-License-Identifier: BSD-3-Clause
// Exchanges packets with a responder: the test forges a request of the valid peer, and gets the
// responses that the responder sends at once. No packet crosses the network.
#pragma once

#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {

struct Dialogue : Pair {
  std::vector<SentFrame> responses;

  explicit Dialogue(const PairOptions& o = {}) : Pair(o) {
    station_b.tap().filter = [this](const SentFrame& f) {
      responses.push_back(f);
      return false;
    };
  }

  Psn expected() { return b.qp().res.expected; }
  uint64_t count(transport::Count c) const { return station_b.count(c); }
  // A request to b's queue pair, its key and its memory.
  Forgery request(uint8_t opcode, Psn psn, size_t offset = 0) {
    Forgery f;
    f.bth = {.opcode = opcode, .ack_request = true, .dest = b.qp().number, .psn = psn};
    f.address = station_b.address_of(offset);
    f.rkey = RKey{station_b.key()};
    return f;
  }
  Forgery write(Psn psn, std::span<const std::byte> payload, size_t offset = 0) {
    Forgery f = request(wire::kRcWriteOnly, psn, offset);
    f.payload = payload;
    f.length = static_cast<uint32_t>(payload.size());
    return f;
  }
  Forgery read(Psn psn, uint32_t length, size_t offset = 0) {
    Forgery f = request(wire::kRcReadRequest, psn, offset);
    f.length = length;
    return f;
  }
  Forgery fetch_add(Psn psn, uint64_t addend, size_t offset = 0) {
    Forgery f = request(wire::kRcFetchAdd, psn, offset);
    f.first = addend;
    return f;
  }
  // Packets that b sends in this time.
  const std::vector<SentFrame>& wait(Duration d) {
    responses.clear();
    station_b.driver().kick();
    world.run_for(d);
    return responses;
  }
  // Packets that b sends in response to this request.
  const std::vector<SentFrame>& responses_to(const Forgery& f) {
    const transport::Path path = path_of(a);
    give(station_b.engine(), path, forge(path, f), world.now());
    responses.clear();
    transport::TxFrame frames[16];
    for (int i = 0; i < 64 && station_b.engine().wants_transmit(); ++i) {
      const size_t n = station_b.engine().transmit(frames, world.now());
      station_b.tap().transmit({frames, n});
    }
    return responses;
  }
};

inline uint32_t psn_of(const SentFrame& f) { return f.bth().psn; }
inline std::span<const std::byte> payload_of(const SentFrame& f) {
  return std::span(f.bytes).subspan(f.info().header_length,
                                    f.bytes.size() - f.info().header_length - wire::kIcrcLength);
}

}  // namespace weft::test
