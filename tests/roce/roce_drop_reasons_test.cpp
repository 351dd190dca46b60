// SPDX-License-Identifier: BSD-3-Clause
// Reasons to drop or to answer again that traffic seldom meets, each met once: its counter moves by
// exactly what happened, and the state stays valid. //= roce:C-EVT-110
#include "tests/virtual_time/dialogue.hpp"

namespace weft::test {
namespace {

using transport::Count;

// Payload in the memory of a sender that exited, or exists.
class Sender final : public transport::RemoteMemory {
 public:
  bool pull(void* destination, uint64_t, size_t size) noexcept override {
    if (alive) std::memset(destination, 0x5A, size);
    return alive;
  }
  bool alive = false;
};

PairOptions by_reference(QpType type) {
  PairOptions o;
  for (StationOptions* s : {&o.station_a, &o.station_b}) {
    s->capabilities.integrity_bits = 0;
    s->capabilities.by_reference = true;
  }
  o.qp_a.type = o.qp_b.type = type;
  return o;
}

TEST_CASE("payload that cannot be pulled is dropped and counted, rx_pull_failed roce:C-EVT-110") {
  const QpType type = GENERATE(QpType::rc, QpType::uc, QpType::ud);
  Pair p(by_reference(type));
  REQUIRE(p.b.recv(1, {p.station_b.sge(0, 2048)}));
  Forgery f;
  f.bth = {.opcode = type == QpType::ud ? uint8_t{wire::kUdSendOnly}
                                        : wire::in_class(type == QpType::rc ? wire::OpClass::rc
                                                                            : wire::OpClass::uc,
                                                         wire::kRcSendOnly),
           .dest = p.b.qp().number,
           .psn = p.b.qp().res.expected};
  f.qkey = p.b.qp().qkey;
  f.source_qp = p.a.qp().number;
  const transport::Path path{.source = p.station_a.address(), .destination = p.station_b.address()};
  std::vector<std::byte> head = forge(path, f);
  head.resize(head.size() - wire::kIcrcLength);  // memory needs none
  Sender sender;
  transport::Frame frame;
  frame.path = &path;
  frame.bytes = head.data();
  frame.length = static_cast<uint32_t>(head.size());
  frame.remote = &sender;
  frame.remote_length = 1000;
  const auto arrive = [&] { p.station_b.engine().receive({&frame, 1}, p.world.now()); };
  arrive();
  CHECK(p.station_b.count(Count::rx_pull_failed) == 1);
  CHECK(p.b.received().empty());
  CHECK(p.b.qp().state == QpState::rts);
  if (type == QpType::uc) return;  // it is lost, as on any network
  sender.alive = true;             // RC: sent again; UD: another datagram
  arrive();
  const Completion c = p.b.only_received();
  CHECK(c.status == Status::success);
  CHECK(c.byte_count == (type == QpType::ud ? 1040 : 1000));
  CHECK(all_are(p.station_b.at(type == QpType::ud ? 40 : 0), 1000, std::byte{0x5A}));
  CHECK(p.station_b.count(Count::rx_pull_failed) == 1);
}

TEST_CASE(
    "an atomic whose response is lost gets it again and executes once, rx_replayed_atomics "
    "roce:C-EVT-110") {
  const Opcode opcode = GENERATE(Opcode::fetch_add, Opcode::compare_swap);
  Pair p;
  size_t answers = 0;
  p.station_b.tap().filter = [&](const SentFrame&) { return answers++ >= 2; };
  const Sge sge = p.station_a.sge(0, 8);
  SendRequest r = p.request(opcode, 1, {&sge, 1}, 64);
  r.compare_add = opcode == Opcode::fetch_add ? 5 : 0;
  r.swap = 5;
  REQUIRE(p.a.send(r));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
  CHECK(all_are(p.station_a.at(0), 8, std::byte{0}));  // the value before the first of them
  uint64_t value = 0;
  std::memcpy(&value, p.station_b.at(64), 8);
  CHECK(value == 5);
  CHECK(p.station_b.count(Count::rx_replayed_atomics) == 2);
  CHECK(p.station_b.count(Count::rx_duplicates) == 2);
}

// A peer sends a response of another kind than the request.
TEST_CASE(
    "an invalid response ends the request, rx_bad_response threat:A29 "
    "roce:C-EVT-110") {
  struct Lie {
    Opcode asked;
    uint8_t opcode;
    uint32_t payload;
    uint8_t syndrome;
  };
  const Lie lie = GENERATE(Lie{Opcode::read, wire::kRcReadResponseOnly, 99, 0x1F},  // 100 wanted
                           Lie{Opcode::read, wire::kRcReadResponseFirst, 100, 0x1F},
                           Lie{Opcode::read, wire::kRcAtomicAcknowledge, 0, 0x1F},
                           Lie{Opcode::write, wire::kRcAtomicAcknowledge, 0, 0x1F},
                           Lie{Opcode::write, wire::kRcReadResponseOnly, 0, 0x1F},
                           Lie{Opcode::fetch_add, wire::kRcReadResponseOnly, 8, 0x1F});
  Pair p;
  p.station_b.tap().filter = [](const SentFrame&) { return false; };
  const Sge sge = p.station_a.sge(0, lie.asked == Opcode::fetch_add ? 8 : 100);
  REQUIRE(p.a.send(p.request(lie.asked, 1, {&sge, 1})));
  p.world.run_for(Duration::from_us(10));
  const std::vector<std::byte> bytes(lie.payload, std::byte{0x66});
  Forgery f;
  f.bth = {.opcode = lie.opcode, .dest = p.a.qp().number, .psn = Psn{0x123456}};
  f.syndrome = lie.syndrome;
  f.payload = bytes;
  f.first = ~uint64_t{0};
  const transport::Path path = path_of(p.b);
  give(p.station_a.engine(), path, forge(path, f), p.world.now());
  INFO("opcode " << int{lie.opcode});
  CHECK(p.station_a.count(Count::rx_bad_response) == 1);
  CHECK(p.a.only_sent().status == Status::bad_response);
  CHECK(p.a.qp().state == QpState::err);
  CHECK(all_are(p.station_a.at(0), 100, std::byte{0}));
}

// 512 PSNs ahead nothing is kept: the first such packet calls for a NAK, what follows it is for
// nothing until the sender has rewound.
TEST_CASE(
    "a packet behind a NAK that is not buffered is counted, rx_after_nak roce:C-EVT-110 "
    "roce:C-PSN-19") {
  Dialogue d;
  const std::vector<std::byte> eight(8, std::byte{1});
  const Psn missing = d.expected();
  REQUIRE(d.responses_to(d.write(missing + 600, eight)).size() == 1);
  CHECK(d.responses[0].aeth().syndrome == wire::kNakSequence);
  CHECK(d.count(Count::rx_after_nak) == 0);
  for (uint32_t i = 601; i < 605; ++i) CHECK(d.responses_to(d.write(missing + i, eight)).empty());
  CHECK(d.count(Count::rx_after_nak) == 4);
  CHECK(d.count(Count::tx_naks) == 1);
  CHECK(d.count(Count::rx_out_of_sequence) == 5);
  d.responses_to(d.write(missing, eight));  // the sender has rewound
  d.responses_to(d.write(missing + 600, eight));
  CHECK(d.count(Count::rx_after_nak) == 4);
  CHECK(d.count(Count::tx_naks) == 2);
}

}  // namespace
}  // namespace weft::test
