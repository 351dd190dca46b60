// SPDX-License-Identifier: BSD-3-Clause
// A malicious peer: it has a connection and signs what it sends, and it asks for what it must not
// have or sends what is no RoCEv2. Each case says which counter, which NAK and which state must
// follow.
#include "lib/base/random.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kOtherDomain = 2;

// Every kind of request that names a remote key.
struct Remote {
  Opcode opcode;
  Access need;
};
Remote remote_request() {
  return GENERATE(Remote{Opcode::write, Access::remote_write},
                  Remote{Opcode::write_with_imm, Access::remote_write},
                  Remote{Opcode::read, Access::remote_read},
                  Remote{Opcode::fetch_add, Access::remote_atomic},
                  Remote{Opcode::compare_swap, Access::remote_atomic});
}

TEST_CASE(
    "a remote key of another domain, or without the right, is rejected, threat:A05 "
    "roce:C-NAK-38 roce:C-NAK-39 roce:C-NAK-43 roce:C-NAK-45") {
  const Remote request = remote_request();
  const bool same_domain = GENERATE(true, false);
  const bool has_right = GENERATE(true, false);
  const bool qp_allows = GENERATE(true, false);
  PairOptions o;
  if (!qp_allows)
    o.connect.access = static_cast<Access>(static_cast<uint32_t>(Access::all) &
                                           ~static_cast<uint32_t>(request.need));
  Pair p(o);
  Access access = Access::all;
  if (!has_right)
    access = static_cast<Access>(static_cast<uint32_t>(Access::all) &
                                 ~static_cast<uint32_t>(request.need));
  const uint32_t key = p.station_b.engine().keys().insert(
      p.station_b.at(4096), 4096, access, same_domain ? Station::kDomain : kOtherDomain);
  fill(p.station_b.at(4096), 4096, 5);
  const std::vector<std::byte> before(p.station_b.at(4096), p.station_b.at(8192));
  CHECK(p.b.recv(1, {}));
  const Sge sge = p.station_a.sge(0, 8);
  SendRequest r = p.request(request.opcode, 1, {&sge, 1}, 4096);
  r.rkey = RKey{key};
  r.compare_add = 1;
  CHECK(p.a.send(r));
  REQUIRE(p.world.run());
  const bool allowed = same_domain && has_right && qp_allows;
  const Completion c = p.a.only_sent();
  // The queue pair is asked first: what it does not support is invalid whatever the key.
  CHECK(c.status == (allowed      ? Status::success
                     : !qp_allows ? Status::remote_invalid_request
                                  : Status::remote_access_error));
  CHECK((p.b.qp().state == QpState::rts) == allowed);
  CHECK((p.a.qp().state == QpState::rts) == allowed);
  if (allowed) return;
  CHECK(c.vendor_error == (qp_allows ? wire::kNakRemoteAccess : wire::kNakInvalidRequest));
  CHECK(std::memcmp(p.station_b.at(4096), before.data(), before.size()) == 0);
  CHECK(all_are(p.station_a.at(0), 8, std::byte{0}));
  CHECK(p.station_b.count(Count::access_errors) == (qp_allows ? 1 : 0));
  CHECK(p.station_b.count(Count::request_errors) == (qp_allows ? 0 : 1));
  AsyncEvent event;
  REQUIRE(p.station_b.engine().next_event(event));
  while (event.type == EventType::comm_established) REQUIRE(p.station_b.engine().next_event(event));
  CHECK(event.type == (qp_allows ? EventType::qp_access_error : EventType::qp_request_error));
}

TEST_CASE("a local key of another domain fails before anything is sent, threat:A05") {
  const Opcode opcode = GENERATE(Opcode::send, Opcode::write, Opcode::read, Opcode::fetch_add);
  Pair p;
  const uint32_t key =
      p.station_a.engine().keys().insert(p.station_a.at(0), 4096, Access::all, kOtherDomain);
  CHECK(p.b.recv(1, {p.station_b.sge(0, 64)}));
  const Sge sge{p.station_a.at(0), 8, LKey{key}};
  CHECK(p.a.send(p.request(opcode, 1, {&sge, 1})));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::local_protection_error);
  CHECK(all_are(p.station_a.at(0), 8, std::byte{0}));
  CHECK(p.a.qp().state == QpState::err);
}

TEST_CASE("a receive into another domain is a remote operation error, threat:A05 roce:C-NAK-40") {
  Pair p;
  const uint32_t key =
      p.station_b.engine().keys().insert(p.station_b.at(0), 4096, Access::all, kOtherDomain);
  CHECK(p.b.recv(1, {Sge{p.station_b.at(0), 64, LKey{key}}}));
  const Sge sge = p.station_a.sge(0, 8);
  CHECK(p.a.send(p.request(Opcode::send, 1, {&sge, 1})));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::remote_operation_error);
  CHECK(p.b.only_received().status == Status::local_protection_error);
}

// Ranges that end behind the region, begin before it, or run over 2^64.
TEST_CASE("ranges out of bounds are rejected, wrap-around included, threat:A06") {
  const Remote request = remote_request();
  Pair p;
  constexpr uint64_t kSize = 4096;
  const uint64_t base = p.station_b.address_of(8192);
  const uint32_t key = p.station_b.engine().keys().insert(p.station_b.at(8192), kSize, Access::all,
                                                          Station::kDomain);
  const bool atomic = request.opcode >= Opcode::compare_swap;
  struct Range {
    uint64_t address;
    uint32_t length;
  };
  std::vector<Range> ranges = {{base - 8, 8}, {base + kSize, 8}, {~uint64_t{7}, 8}, {0, 8}};
  if (!atomic) {
    ranges.insert(ranges.end(), {{base + kSize - 7, 8},
                                 {base - 1, 2},
                                 {base, kSize + 1},
                                 {base + 1, 0xFFFFFFFF},
                                 {base, 0x80000000},
                                 {~uint64_t{0}, 1},
                                 {~uint64_t{0} - 3, 0xFFFFFFFF}});
  }
  const transport::Path path = path_of(p.a);
  static const std::byte bytes[1024] = {};
  for (const Range& range : ranges) {
    Endpoint victim(p.station_b), forger(p.station_a);
    p.world.connect(forger, victim);
    fill(p.station_b.at(0), 32768, 9);
    const std::vector<std::byte> before(p.station_b.at(0), p.station_b.at(32768));
    CHECK(victim.recv(1, {}));
    uint8_t opcode = wire::kRcWriteOnly;
    switch (request.opcode) {
      case Opcode::write_with_imm:
        opcode = wire::kRcWriteOnlyImm;
        break;
      case Opcode::read:
        opcode = wire::kRcReadRequest;
        break;
      case Opcode::fetch_add:
        opcode = wire::kRcFetchAdd;
        break;
      case Opcode::compare_swap:
        opcode = wire::kRcCompareSwap;
        break;
      default:
        break;
    }
    const bool is_write = wire::opcode_info(opcode).operation == wire::Operation::write;
    const bool long_write = is_write && range.length > 1024;
    if (long_write) opcode = wire::kRcWriteFirst;
    Forgery f;
    f.bth = {.opcode = opcode,
             .ack_request = true,
             .dest = victim.qp().number,
             .psn = victim.qp().res.expected};
    f.address = range.address;
    f.rkey = RKey{key};
    f.length = range.length;
    if (is_write) f.payload = std::span(bytes).first(long_write ? 1024 : range.length);
    INFO("address base + " << static_cast<int64_t>(range.address - base) << ", " << range.length);
    give(p.station_b.engine(), path, forge(path, f), p.world.now());
    CHECK(victim.qp().state == QpState::err);
    CHECK(std::memcmp(p.station_b.at(0), before.data(), before.size()) == 0);
    CHECK(drain_transmit(p.station_b.engine(), p.world.now()) == 1);  // the NAK
    p.station_a.engine().destroy_qp(&forger.qp());
    p.station_b.engine().destroy_qp(&victim.qp());
  }
}

TEST_CASE("length zero needs no key, threat:A06 roce:C-OPS-78") {
  const Opcode opcode = GENERATE(Opcode::write, Opcode::read);
  Pair p;
  SendRequest r = p.request(opcode, 1, {});
  r.rkey = RKey{0xDEADBEEF};
  r.remote_address = ~uint64_t{0};
  CHECK(p.a.send(r));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
}

TEST_CASE("requests before an invalid one are still answered, roce:C-STATE-62") {
  Pair p;
  fill(p.station_b.at(0), 3000, 1);
  const Sge sge = p.station_a.sge(0, 3000), eight = p.station_a.sge(4096, 8);
  CHECK(p.a.send(p.request(Opcode::read, 1, {&sge, 1})));
  SendRequest bad = p.request(Opcode::write, 2, {&eight, 1});
  bad.rkey.value ^= 1;
  CHECK(p.a.send(bad));
  CHECK(p.a.send(p.request(Opcode::write, 3, {&eight, 1})));
  REQUIRE(p.world.run());
  const std::vector<Completion> all = p.a.sent();
  REQUIRE(all.size() == 3);
  CHECK(all[0].status == Status::success);
  CHECK(all[1].status == Status::remote_access_error);
  CHECK(all[2].status == Status::flushed);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), 3000) == 0);
}

// Every reason to drop a frame before a queue pair sees it, once.
TEST_CASE(
    "malformed frames are dropped and counted by reason, threat:A13 roce:C-HDR-2 roce:C-HDR-4 "
    "roce:C-HDR-5 roce:C-HDR-9 roce:C-HDR-10 roce:C-OPS-86") {
  Pair p;
  roce::Engine& victim = p.station_b.engine();
  const transport::Path path = path_of(p.a);
  Forgery good;
  good.bth = {.opcode = wire::kRcSendOnly, .dest = p.b.qp().number, .psn = p.b.qp().res.expected};
  const auto counted = [&](Count reason, const std::vector<std::byte>& frame) {
    const uint64_t before = victim.counters()[reason];
    give(victim, path, frame, p.world.now());
    INFO(transport::kCountNames[static_cast<size_t>(reason)]);
    CHECK(victim.counters()[reason] == before + 1);
    CHECK(p.b.qp().state == QpState::rts);
  };
  const auto resigned = [&](size_t byte, uint8_t value) {
    std::vector<std::byte> frame = forge(path, good);
    frame[byte] = std::byte{value};
    sign(path, frame);
    return frame;
  };
  counted(Count::rx_bad_version, resigned(1, 0x01));
  counted(Count::rx_bad_dest_qpn, [&] {
    Forgery f = good;
    f.bth.dest = QpNum{0};
    return forge(path, f);
  }());
  counted(Count::rx_unknown_qp, [&] {
    Forgery f = good;
    f.bth.dest = QpNum{good.bth.dest.value ^ 0x800};
    return forge(path, f);
  }());
  counted(Count::rx_bad_pkey, [&] {
    Forgery f = good;
    f.bth.pkey = 0x1234;
    return forge(path, f);
  }());
  counted(Count::rx_wrong_service, [&] {
    Forgery f = good;
    f.bth.opcode = 0x24;  // UC SEND Only
    return forge(path, f);
  }());
  counted(Count::rx_bad_payload, [&] {
    static const std::byte four[4] = {};
    Forgery f = good;
    f.bth.opcode = wire::kRcReadRequest;
    f.payload = four;
    return forge(path, f);
  }());
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    if (wire::opcode_info(static_cast<uint8_t>(opcode)).known()) continue;
    counted(Count::rx_bad_opcode, resigned(0, static_cast<uint8_t>(opcode)));
  }
  // Every length that is too short for the opcode's headers, pad and ICRC.
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const wire::OpcodeInfo& info = wire::opcode_info(static_cast<uint8_t>(opcode));
    if (!info.known()) continue;
    for (uint32_t length = 0; length < info.header_length + wire::kIcrcLength; ++length) {
      Forgery f = good;
      f.bth.opcode = static_cast<uint8_t>(opcode);
      const std::vector<std::byte> frame = forge(path, f);
      // A copy of exactly that length, so that a read past its end is one past an allocation.
      counted(Count::rx_too_short, {frame.begin(), frame.begin() + length});
    }
  }
  CHECK(p.b.received().empty());
  CHECK(drain_transmit(victim, p.world.now()) == 0);
}

// Requests that are signed and in sequence, and break a rule of their own.
TEST_CASE(
    "malformed requests are NAKed as invalid, threat:A13 roce:C-HDR-3 roce:C-NAK-38 "
    "roce:C-OPS-70") {
  static const std::byte bytes[4096] = {};
  struct Bad {
    uint8_t opcode;
    uint32_t payload;
    uint32_t length;  // in the RETH
    int pad;          // -1: right
  };
  const Bad bad = GENERATE(
      Bad{wire::kRcSendMiddle, 1024, 0, -1}, Bad{wire::kRcSendLast, 10, 0, -1},
      Bad{wire::kRcWriteMiddle, 1024, 0, -1}, Bad{wire::kRcWriteLast, 10, 0, -1},
      Bad{wire::kRcSendFirst, 1023, 0, -1}, Bad{wire::kRcSendFirst, 1025, 0, -1},
      Bad{wire::kRcSendOnly, 1025, 0, -1}, Bad{wire::kRcWriteOnly, 8, 9, -1},
      Bad{wire::kRcWriteOnly, 9, 8, -1}, Bad{wire::kRcWriteFirst, 1024, 1024, -1},
      Bad{wire::kRcWriteFirst, 1024, 10, -1}, Bad{wire::kRcWriteOnly, 10, 10, 0},
      Bad{wire::kRcWriteOnly, 10, 10, 1}, Bad{wire::kRcWriteOnly, 8, 8, 3},
      Bad{wire::kRcSendOnly, 7, 0, 3}, Bad{wire::kRcSendFirst, 1024, 0, 2},
      Bad{wire::kRcWriteFirst, 1024, 0x90000000, -1}, Bad{wire::kRcReadRequest, 0, 0x90000000, -1});
  Pair p;
  CHECK(p.b.recv(1, {p.station_b.sge(0, 8192)}));
  const transport::Path path = path_of(p.a);
  std::vector<SentFrame> answers;
  p.station_b.tap().filter = [&](const SentFrame& f) { return answers.push_back(f), false; };
  Forgery f;
  f.bth = {.opcode = bad.opcode, .dest = p.b.qp().number, .psn = p.b.qp().res.expected};
  f.address = p.station_b.address_of(0);
  f.rkey = RKey{p.station_b.key()};
  f.length = bad.length;
  f.payload = std::span(bytes).first(bad.payload);
  if (bad.pad >= 0) f.pad = static_cast<uint8_t>(bad.pad);
  INFO(wire::opcode_info(bad.opcode).name << " payload " << bad.payload << " length " << bad.length
                                          << " pad " << bad.pad);
  const Psn expected = p.b.qp().res.expected;
  p.world.inject(p.station_b, path, forge(path, f));
  REQUIRE(p.world.run());
  CHECK(p.b.qp().state == QpState::err);
  CHECK(p.station_b.count(Count::request_errors) == 1);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].opcode() == wire::kRcAcknowledge);
  CHECK(answers[0].aeth().syndrome == wire::kNakInvalidRequest);
  CHECK(answers[0].bth().psn == expected.value);
  CHECK(all_are(p.station_b.at(0), 8192, std::byte{0}));
}

// threat:A13: anything at all, signed, at a connected queue pair.
TEST_CASE("random bytes with a valid ICRC never crash or write out of bounds, threat:A13") {
  Pair p;
  base::Random random(11);
  const transport::Path path = path_of(p.a);
  const uint32_t key =
      p.station_b.engine().keys().insert(p.station_b.at(4096), 4096, Access::all, Station::kDomain);
  std::memset(p.station_b.at(0), 0xEE, 16384);
  for (int round = 0; round < 300; ++round) {
    Endpoint victim(p.station_b), forger(p.station_a);
    p.world.connect(forger, victim);
    CHECK(victim.recv(1, {p.station_b.sge(4096, 4096)}));
    for (int i = 0; i < 50; ++i) {
      std::vector<std::byte> frame(16 + random.below(1200));
      for (std::byte& b : frame) b = static_cast<std::byte>(random.next());
      wire::emit_bth(frame.data(), {.opcode = static_cast<uint8_t>(random.below(0x18)),
                                    .ack_request = true,
                                    .pad = static_cast<uint8_t>(random.below(4)),
                                    .dest = victim.qp().number,
                                    .psn = victim.qp().res.expected});
      if (frame.size() >= 40 && random.below(2) == 0)
        wire::emit_reth(frame.data() + 12, p.station_b.address_of(4096) + random.below(4096),
                        RKey{key}, static_cast<uint32_t>(random.below(8192)));
      sign(path, frame);
      give(p.station_b.engine(), path, frame, p.world.now());
      drain_transmit(p.station_b.engine(), p.world.now());
    }
    CHECK(all_are(p.station_b.at(0), 4096, std::byte{0xEE}));
    CHECK(all_are(p.station_b.at(8192), 8192, std::byte{0xEE}));
    p.station_a.engine().destroy_qp(&forger.qp());
    p.station_b.engine().destroy_qp(&victim.qp());
  }
}

}  // namespace
}  // namespace weft::test
