// SPDX-License-Identifier: BSD-3-Clause
// Unreliable datagrams between two engines: what arrives and how it looks, what is dropped without
// dropped and counted, what is invalid at post, and what a local error of the sender leads to.
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kUdHeader = kNetworkHeaderLength;

transport::QpConfig ud() {
  transport::QpConfig config;
  config.type = QpType::ud;
  return config;
}

PairOptions ud_options() {
  PairOptions o;
  o.qp_a = o.qp_b = ud();
  return o;
}

struct UdPair : Pair {
  AddressHandle to_b;

  explicit UdPair(const PairOptions& o = ud_options())
      : Pair(o), to_b(AddressVector{.destination = station_b.address()}) {}
  SendRequest datagram(uint64_t id, std::span<const Sge> sges, Opcode opcode = Opcode::send) {
    SendRequest r;
    r.id = id;
    r.opcode = opcode;
    r.sges = sges;
    r.to = &to_b;
    r.remote_qpn = b.qp().number;
    r.remote_qkey = b.qp().qkey;
    return r;
  }
  void expect(uint64_t id, size_t offset, uint32_t length) {
    REQUIRE(b.recv(id, {station_b.sge(offset, length)}));
  }
  void send(uint64_t id, uint32_t length) {
    const Sge sge = station_a.sge(0, length);
    REQUIRE(a.send(datagram(id, {&sge, 1})));
  }
  uint64_t dropped(Count c) const { return station_b.count(c); }
};

TEST_CASE("a datagram arrives whole, behind its network header, roce:C-OPS-84") {
  PairOptions o = ud_options();
  const bool ipv4 = GENERATE(true, false);
  if (ipv4) {
    o.station_a.address = Gid::from_ipv4(10, 1, 2, 3);
    o.station_b.address = Gid::from_ipv4(10, 1, 2, 4);
  }
  UdPair t(o);
  const uint32_t mtu = t.station_a.engine().capabilities().active_mtu;
  t.to_b = AddressHandle({.destination = t.station_b.address(), .traffic_class = 0x48});
  for (const uint32_t size : {0u, 1u, 7u, 100u, 1023u, mtu}) {
    INFO(size);
    fill(t.station_a.at(0), size, size + 1);
    // Header and payload are cut anywhere.
    const Sge parts[] = {t.station_b.sge(0, 13), t.station_b.sge(13, 0),
                         t.station_b.sge(13, kUdHeader + mtu)};
    REQUIRE(t.b.recv({.id = 9, .sges = parts}));
    const Sge out[] = {t.station_a.sge(0, size / 3), t.station_a.sge(size / 3, size - size / 3)};
    SendRequest r = t.datagram(5, out, Opcode::send_with_imm);
    r.imm = 0x01020304;
    REQUIRE(t.a.send(r));
    REQUIRE(t.world.run());
    const Completion sent = t.a.only_sent();
    CHECK(sent.status == Status::success);
    CHECK(sent.id == 5);
    const Completion got = t.b.only_received();
    REQUIRE(got.status == Status::success);
    CHECK(got.id == 9);
    CHECK(got.byte_count == kUdHeader + size);
    CHECK(got.type == WorkType::recv_with_imm);
    CHECK(got.imm_or_key == 0x01020304);
    CHECK(got.source_qp == t.a.qp().number);
    CHECK(has(got.flags, CompletionFlags::grh | CompletionFlags::with_imm));
    CHECK(std::memcmp(t.station_a.at(0), t.station_b.at(kUdHeader), size) == 0);
    const AddressVector sender =
        sender_of(std::span<const std::byte, kUdHeader>(t.station_b.at(0), kUdHeader));
    CHECK(sender.destination == t.station_a.address());
    CHECK(sender.traffic_class == 0x48);
    if (!ipv4) continue;
    CHECK(all_are(t.station_b.at(0), 20, std::byte{0}));
    CHECK(t.station_b.at(20)[0] == std::byte{0x45});
    CHECK(std::memcmp(t.station_b.at(36), t.station_b.address().bytes.data() + 12, 4) == 0);
  }
  check_quiet(t.station_a);
  check_quiet(t.station_b);
}

TEST_CASE("one queue pair sends to many, and each gets the source to reply to") {
  constexpr uint32_t kLeaves = 100, kSlot = 64;
  World world;
  Station& centre = world.add_station();
  Endpoint hub(centre, ud());
  world.to_rtr(hub, {}, {}, {}, {});
  world.to_rts(hub, Psn{7}, {});
  std::vector<std::unique_ptr<Endpoint>> leaves;
  for (uint32_t i = 0; i < kLeaves; ++i) {
    Station& station = world.add_station({.memory = 4096});
    world.cable(centre, station);
    leaves.push_back(std::make_unique<Endpoint>(station, ud()));
    world.to_rtr(*leaves[i], {}, {}, {}, {});
    world.to_rts(*leaves[i], Psn{i}, {});
    REQUIRE(leaves[i]->recv(i, {station.sge(0, kSlot)}));
    REQUIRE(hub.recv(i, {centre.sge(i * kSlot, kSlot)}));
  }
  const auto say = [&](Endpoint& from, uint32_t word, const AddressVector& to, QpNum qp) {
    const AddressHandle handle(to);
    std::byte* const at = from.station().at(from.station().memory_size() - 8);
    std::memcpy(at, &word, 4);
    const Sge sge{at, 4, LKey{from.station().key()}};
    REQUIRE(from.send({.flags = SendFlags::signaled | SendFlags::inline_data,
                       .sges = {&sge, 1},
                       .to = &handle,
                       .remote_qpn = qp,
                       .remote_qkey = 0x80000000}));
  };
  for (uint32_t i = 0; i < kLeaves; ++i)
    say(hub, i, {.destination = leaves[i]->station().address()}, leaves[i]->qp().number);
  REQUIRE(world.run());
  CHECK(hub.sent().size() == kLeaves);
  for (uint32_t i = 0; i < kLeaves; ++i) {
    const Completion got = leaves[i]->only_received();
    REQUIRE(got.status == Status::success);
    uint32_t word = 0;
    std::memcpy(&word, leaves[i]->station().at(kUdHeader), 4);
    CHECK(word == i);
    const std::span<const std::byte, kUdHeader> header(leaves[i]->station().at(0), kUdHeader);
    say(*leaves[i], 1000 + i, sender_of(header), got.source_qp);
  }
  REQUIRE(world.run());
  CHECK(hub.received().size() == kLeaves);
  check_quiet(centre);
}

TEST_CASE("an undeliverable datagram is dropped and counted, roce:C-OPS-85") {
  UdPair t;
  const Sge sge = t.station_a.sge(0, 100);
  t.send(1, 100);
  REQUIRE(t.world.run());
  CHECK(t.dropped(Count::rx_no_receive) == 1);

  t.expect(7, 0, kUdHeader + 99);
  t.send(2, 100);
  REQUIRE(t.world.run());
  CHECK(t.dropped(Count::rx_too_long) == 1);

  SendRequest r = t.datagram(3, {&sge, 1});
  r.remote_qkey ^= 1;
  REQUIRE(t.a.send(r));
  REQUIRE(t.world.run());
  CHECK(t.dropped(Count::rx_bad_qkey) == 1);

  r = t.datagram(4, {&sge, 1});
  r.remote_qpn.value ^= 1;
  REQUIRE(t.a.send(r));
  REQUIRE(t.world.run());
  CHECK(t.dropped(Count::rx_unknown_qp) == 1);

  // For the sender all went well, and the receive is still there.
  CHECK(t.a.sent().size() == 4);
  CHECK(t.b.received().empty());
  CHECK(t.station_b.count(Count::tx_packets) == 0);
  t.send(5, 99);
  REQUIRE(t.world.run());
  const Completion got = t.b.only_received();
  CHECK(got.id == 7);
  CHECK(got.byte_count == kUdHeader + 99);
}

TEST_CASE("the high bit of a request's Q_Key selects that of the queue pair, roce:C-OPS-85") {
  PairOptions o = ud_options();
  o.connect.qkey = 0x80001234;
  UdPair t(o);
  t.expect(1, 0, 4096);
  const Sge sge = t.station_a.sge(0, 8);
  SendRequest r = t.datagram(1, {&sge, 1});
  r.remote_qkey = 0x80000000;
  REQUIRE(t.a.send(r));
  REQUIRE(t.world.run());
  CHECK(t.b.only_received().status == Status::success);
}

TEST_CASE("an invalid datagram is rejected at post, roce:C-OPS-83") {
  UdPair t;
  const uint32_t mtu = t.station_a.engine().capabilities().active_mtu;
  const Sge sge = t.station_a.sge(0, mtu + 1);
  const SendRequest longest = t.datagram(1, {&sge, 1});
  CHECK(t.a.send(longest).code == Code::invalid_argument);
  const Sge fits = t.station_a.sge(0, 8);
  const SendRequest good = t.datagram(2, {&fits, 1});
  for (const Opcode opcode : {Opcode::write, Opcode::write_with_imm, Opcode::read,
                              Opcode::send_with_invalidate, Opcode::fetch_add}) {
    SendRequest r = good;
    r.opcode = opcode;
    CHECK(t.a.send(r).code == Code::invalid_argument);
  }
  SendRequest nowhere = good;
  nowhere.to = nullptr;
  CHECK(t.a.send(nowhere).code == Code::invalid_argument);
  nowhere = good;
  nowhere.remote_qpn = {};
  CHECK(t.a.send(nowhere).code == Code::invalid_argument);
  const AddressHandle other(AddressVector{.destination = Gid::from_ipv4(1, 2, 3, 4)});
  nowhere = good;
  nowhere.to = &other;
  CHECK(t.a.send(nowhere).code == Code::invalid_argument);
  REQUIRE(t.world.run());
  CHECK(t.station_a.count(Count::tx_packets) == 0);
  CHECK(t.a.sent().empty());
}

TEST_CASE(
    "datagrams are accepted in any order of PSNs, from any source, roce:C-PSN-21 roce:C-HDR-9") {
  UdPair t;
  const transport::Path path = path_of(t.b);
  transport::Path from = path;
  from.source = sim::host_address(77);
  from.destination = t.station_b.address();
  std::vector<std::byte> payload(16, std::byte{3});
  Forgery f;
  f.bth = {.opcode = wire::kUdSendOnly, .dest = t.b.qp().number};
  f.qkey = t.b.qp().qkey;
  f.source_qp = QpNum{0x4321};
  f.payload = payload;
  for (const uint32_t psn : {5u, 4u, 4u, 0xFFFFFFu, 0x800000u}) {
    f.bth.psn = Psn{psn};
    t.expect(psn, 0, 200);
    give(t.station_b.engine(), from, forge(from, f), t.world.now());
    const Completion got = t.b.only_received();
    CHECK(got.id == psn);
    CHECK(got.source_qp == QpNum{0x4321});
  }
  // Not another service's packet, not one that is longer than its path.
  t.expect(1, 0, 100'000);
  f.bth.opcode = wire::kRcSendOnly;
  give(t.station_b.engine(), from, forge(from, f), t.world.now());
  CHECK(t.dropped(Count::rx_wrong_service) == 1);
  f.bth.opcode = wire::kUdSendOnly;
  payload.resize(t.station_b.engine().capabilities().active_mtu + 4);
  f.payload = payload;
  give(t.station_b.engine(), from, forge(from, f), t.world.now());
  CHECK(t.dropped(Count::rx_bad_payload) == 1);
  CHECK(t.b.received().empty());
}

TEST_CASE("a request that cannot be sent stops the send queue only, roce:C-STATE-65") {
  UdPair t;
  const Sge good = t.station_a.sge(0, 8);
  Sge bad = good;
  bad.lkey.value ^= 1;
  std::vector<SendRequest> batch;
  for (uint64_t id = 1; id <= 5; ++id) batch.push_back(t.datagram(id, {id == 3 ? &bad : &good, 1}));
  batch[3].flags = SendFlags::none;  // reported all the same
  for (uint64_t id = 1; id <= 9; ++id) t.expect(id, 0, 100);
  REQUIRE(t.station_a.engine().post_send(t.a.qp(), batch, t.world.now()));
  t.station_a.driver().kick();
  REQUIRE(t.world.run());
  const std::vector<Completion> sent = t.a.sent();
  REQUIRE(sent.size() == 5);
  for (uint64_t i = 0; i < 5; ++i) {
    CHECK(sent[i].id == i + 1);
    CHECK(sent[i].status == (i < 2    ? Status::success
                             : i == 2 ? Status::local_protection_error
                                      : Status::flushed));
  }
  CHECK(t.a.qp().state == QpState::sqe);
  CHECK(t.b.received().size() == 2);
  REQUIRE(t.a.send(t.datagram(6, {&good, 1})));
  CHECK(t.a.only_sent().status == Status::flushed);
  // It still receives.
  REQUIRE(t.a.recv(1, {t.station_a.sge(512, 100)}));
  AddressHandle to_a(AddressVector{.destination = t.station_a.address()});
  const Sge out = t.station_b.sge(0, 8);
  SendRequest back = t.datagram(1, {&out, 1});
  back.to = &to_a;
  back.remote_qpn = t.a.qp().number;
  REQUIRE(t.b.send(back));
  REQUIRE(t.world.run());
  CHECK(t.a.only_received().status == Status::success);
  REQUIRE(t.station_a.engine().modify_qp(t.a.qp(), {.state = QpState::rts}));
  REQUIRE(t.a.send(t.datagram(7, {&good, 1})));
  REQUIRE(t.world.run());
  CHECK(t.a.only_sent().status == Status::success);
  CHECK(t.b.only_received().id == 3);
}

TEST_CASE("a receive with a wrong key fails, and the queue pair with it") {
  UdPair t;
  Sge bad = t.station_b.sge(0, 200);
  bad.lkey.value ^= 1;
  REQUIRE(t.b.recv(1, {bad}));
  t.expect(2, 0, 200);
  t.send(1, 8);
  REQUIRE(t.world.run());
  const std::vector<Completion> got = t.b.received();
  REQUIRE(got.size() == 2);
  CHECK(got[0].status == Status::local_protection_error);
  CHECK(got[1].status == Status::flushed);
  CHECK(t.b.qp().state == QpState::err);
}

TEST_CASE("a request completes when the port has its frame, not before") {
  UdPair t;
  roce::Engine& engine = t.station_a.engine();
  const Sge sge = t.station_a.sge(0, 8);
  const SendRequest r = t.datagram(1, {&sge, 1});
  REQUIRE(engine.post_send(t.a.qp(), {&r, 1}, t.world.now()));
  transport::TxFrame frames[4];
  CHECK(engine.transmit(frames, t.world.now()) == 1);
  CHECK(t.a.sent().empty());
  CHECK(engine.has_active());  // so the driver calls again
  CHECK(engine.transmit(frames, t.world.now()) == 0);
  CHECK(t.a.only_sent().status == Status::success);
  CHECK(!engine.has_active());
}

TEST_CASE("SQD completes started requests, and delays the rest, roce:C-STATE-64") {
  UdPair t;
  for (uint64_t id = 1; id <= 3; ++id) t.expect(id, 0, 100);
  t.send(1, 8);
  REQUIRE(t.world.run());
  roce::Engine& engine = t.station_a.engine();
  REQUIRE(engine.modify_qp(t.a.qp(), {.state = QpState::sqd, .sq_drained_event = true}));
  AsyncEvent event;
  REQUIRE(engine.next_event(event));
  CHECK(event.type == EventType::sq_drained);
  t.send(2, 8);
  REQUIRE(t.world.run());
  CHECK(t.a.sent().size() == 1);
  REQUIRE(engine.modify_qp(t.a.qp(), {.state = QpState::rts}));
  t.station_a.driver().kick();
  REQUIRE(t.world.run());
  CHECK(t.a.only_sent().id == 2);
  CHECK(t.b.received().size() == 2);
}

TEST_CASE("RESET and destruction leave nothing of a datagram queue pair behind") {
  UdPair t;
  t.send(1, 8);
  t.send(2, 8);
  REQUIRE(t.station_a.engine().modify_qp(t.a.qp(), {.state = QpState::reset}));
  REQUIRE(t.world.run());
  CHECK(t.a.sent().empty());
  t.world.to_rtr(t.a, {}, {}, {}, {});
  t.world.to_rts(t.a, Psn{1}, {});
  t.send(3, 8);
  t.station_a.engine().destroy_qp(&t.a.qp());
  REQUIRE(t.world.run());
  CHECK(!t.station_a.engine().wants_transmit());
}

}  // namespace
}  // namespace weft::test
