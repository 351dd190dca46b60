// SPDX-License-Identifier: BSD-3-Clause
// Two SRD stations and an attacker on the wire that records what they send, replays it, and changes
// it before, signatures included.
#pragma once

#include <vector>

#include "lib/wire/icrc.hpp"
#include "lib/wire/srd_parse.hpp"
#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {

// `frame` with other headers, signed again.
inline SentFrame forged(SentFrame frame, const std::function<void(wire::SrdBase&)>& change) {
  auto& base = *reinterpret_cast<wire::SrdBase*>(frame.bytes.data());
  change(base);
  const wire::OuterHeader outer{&frame.path.source, &frame.path.destination, frame.path.source_port,
                                frame.path.destination_port, frame.ip_id};
  const auto length = static_cast<uint32_t>(frame.bytes.size());
  const uint32_t crc = wire::icrc(outer, frame.bytes.data(), length);
  std::memcpy(&frame.bytes[length - 4], &crc, 4);
  return frame;
}

struct SrdWiretap : SrdTwo {
  std::vector<SentFrame> recorded;  // what a sent, but for hellos

  explicit SrdWiretap(const SrdOptions& options = {}) : SrdTwo(options) { record(); }
  void record() {
    a.life().tap->filter = [this](const SentFrame& frame) {
      if (frame.opcode() != static_cast<uint8_t>(wire::SrdOpcode::hello)) recorded.push_back(frame);
      return true;
    };
  }
  std::vector<Completion> wait(size_t count, Duration limit = Duration::from_s(10)) {
    std::vector<Completion> all;
    (void)world.run_until(
        [&] {
          for (const Completion& c : a.sent()) all.push_back(c);
          return all.size() >= count;
        },
        limit);
    REQUIRE(all.size() == count);
    return all;
  }
  void add(uint64_t id) {
    const Sge in = a.sge(0, 8);
    SendRequest r = request(Opcode::fetch_add, id, {&in, 1}, 64);
    r.compare_add = 1;
    REQUIRE(a.post(b, r));
  }
  void inject(SrdStation& to, const SentFrame& frame, Duration then = Duration::from_us(5)) {
    to.inject(frame);
    world.run_for(then);
  }
  static SentFrame forged(const SentFrame& frame,
                          const std::function<void(wire::SrdBase&)>& change) {
    return test::forged(frame, change);
  }
};

}  // namespace weft::test
