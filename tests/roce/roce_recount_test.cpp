// SPDX-License-Identifier: BSD-3-Clause
// Counters equal a recount of the capture, for UC, UD and XRC as for RC: what left and what came by
// kind, over a network that loses some; and each frame that was spoiled on purpose, in the middle
// of it all, under the reason for which it was dropped. roce:C-EVT-110
#include <map>

#include "lib/base/random.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kXrc = 7, kRounds = 200;
constexpr uint8_t kUc = 0x20;  // what makes an opcode of RC one of UC

struct Seen {
  uint64_t packets = 0, bytes = 0, acks = 0, naks = 0, rnr_naks = 0, responses = 0;
  void add(const SentFrame& f) {
    ++packets;
    bytes += f.bytes.size();
    responses += f.info().operation == wire::Operation::read_response;
    if (f.info().operation != wire::Operation::acknowledge) return;
    const uint8_t kind = f.aeth().syndrome & wire::kSyndromeKindMask;
    ++(kind == wire::kSyndromeAck ? acks : kind == wire::kSyndromeRnr ? rnr_naks : naks);
  }
};

PairOptions service(QpType to, QpType from) {
  PairOptions o;
  o.qp_a.type = from;
  o.qp_b.type = to;
  o.qp_a.max_send_wr = o.qp_b.max_recv_wr = 1024;
  if (to == QpType::xrc_target) o.qp_b.xrc_domain = kXrc;
  return o;
}

struct Recount : Pair {
  Seen left[2], came[2];
  std::map<Count, uint64_t> dropped;  // at b, by reason
  uint64_t number = 0;
  base::Random random{110};
  AddressHandle to{AddressVector{.destination = station_b.address()}};
  transport::CompletionQueue pool_cq{4096};
  std::unique_ptr<transport::SharedReceives> pool;

  Recount(QpType from, QpType to_type) : Pair(service(to_type, from)) {
    if (to_type == QpType::xrc_target)
      pool = std::move(*station_b.engine().create_shared_receives(
          Station::kDomain, {.max_recv_wr = 1024, .max_recv_sge = 1}, {kXrc, &pool_cq}));
    Station* const stations[] = {&station_a, &station_b};
    for (int side = 0; side < 2; ++side)
      stations[side]->tap().filter = [this, side](const SentFrame& f) {
        left[side].add(f);
        if (++number % 11 == 0) return false;
        came[1 - side].add(f);
        return true;
      };
  }
  ~Recount() {
    if (pool) station_b.engine().withdraw(*pool);
  }
  void receive(uint64_t id) {
    const Sge sge = station_b.sge(0, 8192);
    const RecvRequest r{id, {&sge, 1}};
    REQUIRE((pool ? station_b.engine().post_recv(*pool, {&r, 1}) : b.recv(r)));
  }
  void post(Opcode opcode, uint64_t id, uint32_t length) {
    const Sge sge = station_a.sge(0, length);
    SendRequest r = request(opcode, id, {&sge, 1}, 16384);
    r.to = &to;
    r.remote_qpn = b.qp().number;
    r.remote_qkey = ConnectOptions{}.qkey;
    r.remote_srq = pool ? pool->number : 0;
    REQUIRE(a.send(r));
  }
  uint8_t send_only() {
    switch (b.qp().type) {
      case QpType::uc:
        return wire::kRcSendOnly | kUc;
      case QpType::ud:
        return wire::kUdSendOnly;
      case QpType::xrc_target:
        return wire::kRcSendOnly | 0xA0;
      default:
        return wire::kRcSendOnly;
    }
  }
  // One frame for b, of its service, that must be dropped, and why.
  void spoil() {
    const bool ud = b.qp().type == QpType::ud;
    transport::Path path = ud ? transport::Path{} : path_of(a);
    path.source = station_a.address();
    path.destination = station_b.address();
    static const std::byte eight[8] = {};
    Forgery f;
    f.bth = {.opcode = send_only(), .dest = b.qp().number, .psn = b.qp().res.expected};
    f.qkey = ConnectOptions{}.qkey;
    f.srq = pool ? pool->number : 0;
    f.payload = eight;
    Count why = Count::rx_icrc_error;
    std::vector<std::byte> frame;
    switch (random.below(9)) {
      case 0:
        f.bth.dest = QpNum{f.bth.dest.value ^ 0x800};
        why = Count::rx_unknown_qp;
        break;
      case 1:
        f.bth.dest = QpNum{0};
        why = Count::rx_bad_dest_qpn;
        break;
      case 2:
        f.bth.pkey = 0x1234;
        why = Count::rx_bad_pkey;
        break;
      case 3:
        f.bth.opcode = wire::kRcSendOnly | (b.qp().type == QpType::rc ? kUc : uint8_t{0});
        why = Count::rx_wrong_service;
        break;
      case 4:
        why = Count::rx_bad_qkey;
        f.qkey ^= 1;
        if (ud) break;
        path.source = sim::host_address(66);
        why = Count::rx_bad_source;
        break;
      case 5:
        f.bth.opcode = 0xE0;
        f.payload = {};
        why = Count::rx_bad_opcode;
        break;
      case 6:
        frame = forge(path, f);
        frame.resize(random.below(16));
        why = Count::rx_too_short;
        break;
      case 7:
        frame = forge(path, f);
        frame[1] |= std::byte{1};
        sign(path, frame);
        why = Count::rx_bad_version;
        break;
      default:
        frame = forge(path, f);
        frame.back() ^= std::byte{1};
    }
    if (frame.empty() && why != Count::rx_too_short) frame = forge(path, f);
    ++dropped[why];
    ++came[1].packets;
    came[1].bytes += frame.size();
    world.inject(station_b, path, frame);
  }
  void check() {
    CHECK(dropped.size() == 9);
    const Station* const stations[] = {&station_a, &station_b};
    for (int side = 0; side < 2; ++side) {
      const Station& s = *stations[side];
      INFO("side " << side);
      CHECK(s.count(Count::tx_packets) == left[side].packets);
      CHECK(s.count(Count::tx_bytes) == left[side].bytes);
      CHECK(s.count(Count::tx_acks) == left[side].acks);
      CHECK(s.count(Count::tx_naks) == left[side].naks);
      CHECK(s.count(Count::tx_rnr_naks) == left[side].rnr_naks);
      CHECK(s.count(Count::tx_read_responses) == left[side].responses);
      CHECK(s.count(Count::rx_packets) == came[side].packets);
      CHECK(s.count(Count::rx_bytes) == came[side].bytes);
    }
    for (size_t i = 0; i < transport::kCountEnd; ++i) {
      const auto reason = static_cast<Count>(i);
      const bool of_a_frame = reason >= Count::rx_too_short && reason <= Count::rx_wrong_state;
      if (!of_a_frame) continue;
      INFO(transport::kCountNames[i]);
      CHECK(station_b.count(reason) == dropped[reason]);
      CHECK(station_a.count(reason) == 0);
    }
  }
};

TEST_CASE("RC and XRC: the counters agree with the capture, roce:C-EVT-110") {
  const bool xrc = GENERATE(false, true);
  Recount t(xrc ? QpType::xrc_initiator : QpType::rc, xrc ? QpType::xrc_target : QpType::rc);
  const Opcode opcodes[] = {Opcode::write, Opcode::read, Opcode::send};
  uint64_t done = 0;
  for (uint64_t i = 0; i < kRounds; ++i) {
    t.post(opcodes[i % 3], i, static_cast<uint32_t>(i * 20));
    if (i % 3 == 2) t.receive(i);
    t.spoil();
    t.world.run_for(Duration::from_us(2));
  }
  REQUIRE(t.world.run());
  for (const Completion& c : t.a.sent()) done += c.status == Status::success;
  CHECK(done == kRounds);
  t.check();
  CHECK(t.left[1].naks > 0);
}

TEST_CASE("UC and UD: the counters agree with the capture, roce:C-EVT-110") {
  const QpType type = GENERATE(QpType::uc, QpType::ud);
  Recount t(type, type);
  for (uint64_t i = 0; i < kRounds; ++i) {
    t.post(Opcode::send, i, static_cast<uint32_t>(i * 5));  // of one packet each
    if (i % 3 != 2) t.receive(i);
    t.spoil();
    t.world.run_for(Duration::from_us(2));
  }
  REQUIRE(t.world.run());
  t.check();
  // What came was received, or found no receive.
  const uint64_t spoiled = kRounds;
  CHECK(t.b.received().size() + t.station_b.count(Count::rx_no_receive) ==
        t.came[1].packets - spoiled);
  CHECK(t.station_b.count(Count::rx_no_receive) > 0);
  CHECK(t.left[1].packets == 0);
}

}  // namespace
}  // namespace weft::test
