// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups between engines: who gets a copy of a datagram, who does not, and what becomes
// of frames that claim to be for a group and are not.
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kHeader = kNetworkHeaderLength;
constexpr uint32_t kSlot = 256;
constexpr Gid kGroup = {{0xFF, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};
constexpr Gid kOther = {{0xFF, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8}};

// `kStations` stations, all joined by cables, with `kEach` datagram queue pairs each.
struct Party {
  static constexpr uint32_t kStations = 3, kEach = 3;
  World world;
  std::vector<Station*> stations;
  std::vector<std::unique_ptr<Endpoint>> ends;
  AddressHandle group{AddressVector{.destination = kGroup}};

  Party() {
    for (uint32_t s = 0; s < kStations; ++s) {
      stations.push_back(&world.add_station({.memory = 1u << 16}));
      for (uint32_t before = 0; before < s; ++before) world.cable(*stations[before], *stations[s]);
    }
    transport::QpConfig config;
    config.type = QpType::ud;
    for (uint32_t i = 0; i < kStations * kEach; ++i) {
      ends.push_back(std::make_unique<Endpoint>(*stations[i / kEach], config));
      world.to_rtr(*ends[i], {}, {}, {}, {});
      world.to_rts(*ends[i], Psn{i}, {});
      expect(i);
    }
  }
  Endpoint& end(uint32_t station, uint32_t number) { return *ends[station * kEach + number]; }
  roce::Engine& engine(Endpoint& e) { return e.station().engine(); }
  void expect(uint32_t i) {
    REQUIRE(ends[i]->recv(i, {ends[i]->station().sge(i % kEach * kSlot, kSlot)}));
  }
  void attach(Endpoint& e, const Gid& to = kGroup) {
    REQUIRE(engine(e).attach_multicast(e.qp(), to));
  }
  SendRequest datagram(const Sge& sge) {
    return {.flags = SendFlags::signaled,
            .sges = {&sge, 1},
            .to = &group,
            .remote_qpn = kMulticastQpn,
            .remote_qkey = 0x80000000};
  }
  // Sends `word`, and returns which endpoints received it, a bit each.
  uint32_t receivers_of(Endpoint& from, uint32_t word) {
    std::byte* const at = from.station().at(0x8000);
    std::memcpy(at, &word, sizeof word);
    const Sge sge{at, sizeof word, LKey{from.station().key()}};
    REQUIRE(from.send(datagram(sge)));
    return received(from, word);
  }
  uint32_t received(Endpoint& from, uint32_t word) {
    REQUIRE(world.run());
    CHECK(from.only_sent().status == Status::success);
    uint32_t who = 0;
    for (uint32_t i = 0; i < ends.size(); ++i) {
      for (const Completion& got : ends[i]->received()) {
        INFO(i);
        CHECK(!(who >> i & 1));
        who |= 1u << i;
        CHECK(got.status == Status::success);
        CHECK(got.byte_count == kHeader + sizeof word);
        CHECK(got.source_qp == from.qp().number);
        const std::byte* const at = ends[i]->station().at(i % kEach * kSlot);
        CHECK(std::memcmp(at + kHeader, &word, sizeof word) == 0);
        CHECK(std::memcmp(at + 24, kGroup.bytes.data(), 16) == 0);
        CHECK(sender_of(std::span<const std::byte, kHeader>(at, kHeader)).destination ==
              from.station().address());
        expect(i);
      }
    }
    return who;
  }
};

TEST_CASE("each member of a group gets one copy, and no other queue pair, roce:C-OPS-87") {
  Party p;
  CHECK(p.receivers_of(p.end(0, 0), 1) == 0);
  p.attach(p.end(1, 0));
  p.attach(p.end(1, 2));
  p.attach(p.end(2, 1));
  p.attach(p.end(2, 2), kOther);
  // The sender is no member; its own station has not joined.
  CHECK(p.receivers_of(p.end(0, 0), 2) == 0b010'101'000);
  CHECK(p.stations[0]->count(Count::rx_packets) == 0);
  // Its own station's members are served too, it itself is not, be it a member or not.
  p.attach(p.end(0, 0));
  p.attach(p.end(0, 1));
  CHECK(p.receivers_of(p.end(0, 0), 3) == 0b010'101'010);
  CHECK(p.receivers_of(p.end(0, 2), 4) == 0b010'101'011);
  // Joining twice is joining once.
  p.attach(p.end(1, 0));
  CHECK(p.receivers_of(p.end(1, 2), 5) == 0b010'001'011);
  check_quiet(*p.stations[0]);
  check_quiet(*p.stations[1]);
}

TEST_CASE("a queue pair that left a group gets no more copies, the others do, roce:C-OPS-87") {
  Party p;
  p.attach(p.end(1, 0));
  p.attach(p.end(1, 1));
  p.attach(p.end(1, 2));
  Endpoint& gone = p.end(1, 1);
  REQUIRE(p.engine(gone).detach_multicast(gone.qp(), kGroup));
  CHECK(p.receivers_of(p.end(0, 0), 1) == 0b000'101'000);
  CHECK(p.engine(gone).detach_multicast(gone.qp(), kGroup).error().code == Code::not_found);
  CHECK(p.engine(gone).detach_multicast(gone.qp(), kOther).error().code == Code::not_found);
  // Destruction leaves too, RESET does not.
  p.engine(gone).destroy_qp(&p.end(1, 0).qp());
  p.ends[3] = std::make_unique<Endpoint>(*p.stations[1], transport::QpConfig{.type = QpType::ud});
  CHECK(p.receivers_of(p.end(0, 0), 2) == 0b000'100'000);
  REQUIRE(p.engine(gone).modify_qp(p.end(1, 2).qp(), {.state = QpState::reset}));
  CHECK(p.receivers_of(p.end(0, 0), 3) == 0);
  CHECK(p.stations[1]->count(Count::rx_wrong_state) == 1);
  p.world.to_rtr(p.end(1, 2), {}, {}, {}, {});
  p.expect(5);
  CHECK(p.receivers_of(p.end(0, 0), 4) == 0b000'100'000);
  // No member is left: the station does not receive the frames.
  const uint64_t before = p.stations[1]->count(Count::rx_packets);
  REQUIRE(p.engine(gone).detach_multicast(p.end(1, 2).qp(), kGroup));
  CHECK(p.receivers_of(p.end(0, 0), 5) == 0);
  CHECK(p.stations[1]->count(Count::rx_packets) == before);
}

TEST_CASE("members with another Q_Key or without a receive get no copy, roce:C-OPS-85") {
  Party p;
  for (uint32_t i = 0; i < 3; ++i) p.attach(p.end(1, i));
  p.end(1, 0).qp().qkey ^= 1;
  CHECK(p.receivers_of(p.end(0, 0), 1) == 0b000'110'000);
  CHECK(p.stations[1]->count(Count::rx_bad_qkey) == 1);
  p.end(1, 0).qp().qkey ^= 1;
  CHECK(p.receivers_of(p.end(0, 0), 2) == 0b000'111'000);
  REQUIRE(p.engine(p.end(1, 1)).modify_qp(p.end(1, 1).qp(), {.state = QpState::reset}));
  p.world.to_rtr(p.end(1, 1), {}, {}, {}, {});
  CHECK(p.receivers_of(p.end(0, 0), 3) == 0b000'101'000);
  CHECK(p.stations[1]->count(Count::rx_no_receive) == 1);
}

TEST_CASE(
    "kMulticastQpn and a group address are valid only together, roce:C-HDR-10 roce:C-OPS-87") {
  Party p;
  Endpoint& to = p.end(1, 0);
  p.attach(to);
  Station& station = *p.stations[1];
  transport::Path path;
  path.source = p.stations[0]->address();
  path.destination = kGroup;
  std::vector<std::byte> payload(4);
  Forgery f;
  f.bth = {.opcode = wire::kUdSendOnly, .dest = kMulticastQpn};
  f.qkey = to.qp().qkey;
  f.source_qp = p.end(0, 0).qp().number;
  f.payload = payload;
  const auto give_one = [&] { give(station.engine(), path, forge(path, f), p.world.now()); };
  give_one();
  CHECK(to.only_received().status == Status::success);
  p.expect(3);
  // To the group's number at our own address, or at another group's.
  path.destination = station.address();
  give_one();
  path.destination = kOther;
  give_one();
  CHECK(station.count(Count::rx_no_group) == 2);
  // To a queue pair's number at the group's address.
  path.destination = kGroup;
  f.bth.dest = to.qp().number;
  give_one();
  CHECK(station.count(Count::rx_bad_dest_qpn) == 1);
  // Another service, another partition.
  f.bth.dest = kMulticastQpn;
  f.bth.opcode = wire::kRcSendOnly;
  give_one();
  CHECK(station.count(Count::rx_wrong_service) == 1);
  f.bth.opcode = wire::kUdSendOnly;
  f.bth.pkey = 0x8001;
  give_one();
  CHECK(station.count(Count::rx_bad_pkey) == 1);
  CHECK(to.received().empty());
}

TEST_CASE("a group without kMulticastQpn, or the reverse, is invalid at post") {
  Party p;
  const Sge sge = p.stations[0]->sge(0, 8);
  SendRequest r = p.datagram(sge);
  r.remote_qpn = p.end(1, 0).qp().number;
  CHECK(p.end(0, 0).send(r).code == Code::invalid_argument);
  const AddressHandle one(AddressVector{.destination = p.stations[1]->address()});
  r = p.datagram(sge);
  r.to = &one;
  CHECK(p.end(0, 0).send(r).code == Code::invalid_argument);
}

}  // namespace
}  // namespace weft::test
