// SPDX-License-Identifier: BSD-3-Clause
// SRD between stations with several addresses: all cables carry, one that dies is noticed by
// no other peer, and stations with one address work as before.
#include <cstdio>

#include "tests/srd/srd_spines.hpp"

namespace weft::test {
namespace {

using transport::Count;
constexpr Duration kRailsMs = Duration::from_ms(1);

SrdOptions rails_options(uint32_t rails, uint32_t paths = 16) {
  SrdOptions o;
  o.rails = rails;
  o = controlled("nscc", o);
  o.config.paths = paths;
  o.link.queue_bytes = 4u << 20;
  o.link.mark_bytes = 1u << 16;
  o.memory = 1u << 20;
  return o;
}

// Two stations with a cable for each rail.
struct RailsTwo {
  explicit RailsTwo(const SrdOptions& o) : world(o), a(world[0]), b(world[1]), cut(o.rails) {
    watch(a);
    watch(b);
  }
  // From now on: of a station's present process.
  void watch(SrdStation& s) {
    s.life().tap->filter = [this](const SentFrame& frame) {
      for (uint32_t rail = 0; rail < cut.size(); ++rail) {
        const bool here = frame.path.source == a.host(rail).address() ||
                          frame.path.source == b.host(rail).address();
        if (!here) continue;
        ++sent[rail];
        if (!cut[rail]) return true;
        if (on_drop) on_drop(frame);
        return false;
      }
      return true;
    };
  }
  uint32_t joined(SrdStation& s) {
    const srd::Peer* const peer = s.engine().peer(0);
    return peer->rails != nullptr ? peer->rails->joined() : 1;
  }

  SrdWorld world;
  SrdStation &a, &b;
  std::vector<bool> cut;  // by rail
  std::array<uint64_t, 8> sent{};
  std::function<void(const SentFrame&)> on_drop;
};

double rails_goodput(uint32_t rails, uint32_t paths = 16) {
  RailsTwo net(rails_options(rails, paths));
  Stream stream(net.world.network, net.a, net.b, 65536, 64);
  net.world.run_for(kRailsMs * 2);
  const uint64_t before = stream.bytes();
  net.world.run_for(kRailsMs * 10);
  const double gbps = static_cast<double>(stream.bytes() - before) * 8 / 10e6;
  CHECK(net.joined(net.a) == rails);
  std::printf("%u rails: %.1f Gb/s\n", rails, gbps);
  return gbps;
}

TEST_CASE("two cables carry twice as much as one, four carry four times as much") {
  const double one = rails_goodput(1);
  CHECK(one > 90);
  CHECK(rails_goodput(2) >= 1.9 * one);
  CHECK(rails_goodput(4) >= 3.8 * one);
}

struct RailsCut {
  std::vector<double> rerouted;  // us from a packet's loss to its arrival on another way
  uint64_t healthy = 0, after = 0;
};

// Rail `rail` dies while 64 WRITEs are always outstanding.
void cut_rail(uint32_t rail, RailsCut& result) {
  SrdOptions o = rails_options(2);
  o.seed = rail + 1;
  RailsTwo net(o);
  std::map<uint64_t, Instant> lost;
  net.on_drop = [&](const SentFrame& frame) {
    if (net.b.engine().peer(0) == nullptr || frame.path.destination == net.a.host(rail).address())
      return;
    const auto& base = *reinterpret_cast<const wire::SrdBase*>(frame.bytes.data());
    if (wire::is_sequenced(static_cast<wire::SrdOpcode>(base.opcode)))
      lost.emplace(base.sequence, net.world.network.now());
  };
  Stream stream(net.world.network, net.a, net.b, 65536, 64);
  net.world.run_for(kRailsMs * 2);
  const uint64_t start = stream.bytes();
  net.world.run_for(kRailsMs * 2);
  result.healthy += stream.bytes() - start;
  net.cut[rail] = true;
  const Instant cut_at = net.world.network.now();
  const srd::Receiver& rx = net.b.engine().peer(0)->rx;
  while (net.world.network.now() - cut_at < kRailsMs / 2) {
    net.world.run_for(Duration::from_us(1));
    std::erase_if(lost, [&](const auto& each) {
      if (each.first >= rx.window.next()) return false;
      result.rerouted.push_back(static_cast<double>((net.world.network.now() - each.second).ps) /
                                1e6);
      return true;
    });
  }
  const uint64_t recovered = stream.bytes();
  net.world.run_for(kRailsMs * 2);
  result.after += stream.bytes() - recovered;
  stream.stop();
  net.world.run_for(kRailsMs * 5);
  CHECK(stream.idle());
}

TEST_CASE("one of two rails dies, also the first: its packets in flight arrive on the other") {
  for (uint32_t rail = 0; rail < 2; ++rail) {
    RailsCut cut;
    cut_rail(rail, cut);
    std::sort(cut.rerouted.begin(), cut.rerouted.end());
    REQUIRE(cut.rerouted.size() >= 4);
    const auto at = [&](double p) {
      return cut.rerouted[static_cast<size_t>(p * static_cast<double>(cut.rerouted.size() - 1))];
    };
    std::printf(
        "rail %u cut: %zu packets, p50 %.1f us, p99 %.1f us, most %.1f us; %.1f Gb/s before, "
        "%.1f after\n",
        rail, cut.rerouted.size(), at(0.5), at(0.99), at(1),
        static_cast<double>(cut.healthy) * 8 / 2e6, static_cast<double>(cut.after) * 8 / 2e6);
    CHECK(at(0.5) <= 50);
    CHECK(at(0.99) <= 150);
    CHECK(at(1) <= 500);
    CHECK(static_cast<double>(cut.after) >= 0.95 * static_cast<double>(cut.healthy) / 2);
  }
}

TEST_CASE(
    "a rail that was dead is used again when it is back, or when it was dead from the start") {
  for (const bool from_start : {false, true}) {
    RailsTwo net(rails_options(2));
    net.cut[1] = from_start;
    Stream stream(net.world.network, net.a, net.b, 65536, 64);
    net.world.run_for(kRailsMs * 2);
    net.cut[1] = true;
    net.world.run_for(kRailsMs * 5);
    CHECK(net.joined(net.a) == (from_start ? 1 : 2));
    net.cut[1] = false;
    net.world.run_for(kRailsMs * 30);
    CHECK(net.joined(net.a) == 2);
    const auto before = net.sent;
    net.world.run_for(kRailsMs * 10);
    const uint64_t first = net.sent[0] - before[0], second = net.sent[1] - before[1];
    CHECK(second > first / 2);
  }
}

TEST_CASE("responses arrive and new streams begin while the first rail is dead") {
  RailsTwo net(rails_options(2));
  // The responses of a READ are a stream of their own, which requests its own routes.
  const auto read = [&](uint64_t id) {
    const Sge sge = net.a.sge(0, 300'000);
    SendRequest r;
    r.id = id;
    r.opcode = Opcode::read;
    r.sges = {&sge, 1};
    r.remote_address = net.b.address_of(0);
    r.rkey = RKey{net.b.key()};
    REQUIRE(net.a.post(net.b, r));
    std::vector<Completion> got;
    REQUIRE(net.world.run_until(
        [&] {
          for (const Completion& c : net.a.sent()) got.push_back(c);
          return !got.empty();
        },
        Duration::from_s(2)));
    CHECK(got[0].status == Status::success);
  };
  for (uint64_t i = 0; i < 4; ++i) read(i);
  CHECK(net.joined(net.a) == 2);
  CHECK(net.joined(net.b) == 2);
  net.cut[0] = true;
  read(10);
  net.world.run_for(kRailsMs * 1500);  // idle: the next one begins a new stream
  read(11);
  CHECK(net.a.count(Count::peers_lost) + net.b.count(Count::peers_lost) == 0);
}

// One of them has a second address, which the other reaches from its only one.
struct Uneven {
  explicit Uneven(uint32_t far_rails) {
    SrdOptions o = rails_options(1);
    stations.push_back(std::make_unique<SrdStation>(network, 0, o));
    o.rails = far_rails;
    stations.push_back(std::make_unique<SrdStation>(network, 1, o));
    for (uint32_t rail = 0; rail < far_rails; ++rail)
      network.connect(stations[0]->host(), stations[1]->host(rail), o.link);
  }
  sim::Network network;
  std::vector<std::unique_ptr<SrdStation>> stations;
};

TEST_CASE("a station with one address uses both addresses of its peer") {
  for (const bool one_sends : {true, false}) {
    Uneven net(2);
    SrdStation& one = *net.stations[0];
    SrdStation& two = *net.stations[1];
    Stream stream(net.network, one_sends ? one : two, one_sends ? two : one, 65536, 64);
    net.network.events().run_until(net.network.now() + kRailsMs * 5);
    SrdStation& sender = one_sends ? one : two;
    CHECK(sender.count(Count::ways_joined) == 1);
    uint32_t used = 0;
    for (const PathReport& path : sender.engine().path_reports(
             (one_sends ? two : one).host().address(), (one_sends ? two : one).number()))
      used |= (path.source == two.host(1).address() || path.destination == two.host(1).address())
                  ? 2
                  : 1;
    CHECK(used == 3);
    CHECK(stream.bytes() > 10'000'000);
  }
}

TEST_CASE("a peer without support for rails is served on the first one") {
  RailsTwo net(rails_options(2));
  // As an older process: it drops unknown opcodes, and never sends a rails packet.
  uint32_t dropped = 0;
  const auto without = [&dropped](const SentFrame& frame) {
    const bool rails = frame.bytes[0] == static_cast<std::byte>(wire::SrdOpcode::rails);
    dropped += rails;
    return !rails;
  };
  net.a.life().tap->filter = without;
  net.b.life().tap->filter = without;
  Stream stream(net.world.network, net.a, net.b, 65536, 16);
  net.world.run_for(kRailsMs * 20);
  CHECK(net.joined(net.a) == 1);
  CHECK(stream.bytes() > 100'000'000);
  // At 0, 1, 3, 7 and 15 ms for one route; no other is known.
  CHECK(net.a.count(Count::tx_rail_requests) <= 6);
  // And b announces its own with some of its acknowledgements, at growing distances.
  CHECK(dropped > 6);
  CHECK(dropped < 40);
}

TEST_CASE("no more routes join than path indexes exist") {
  RailsTwo net(rails_options(5, 64));
  Stream stream(net.world.network, net.a, net.b, 65536, 64);
  net.world.run_for(kRailsMs * 20);
  CHECK(net.joined(net.a) == 4);
  CHECK(net.a.engine().path_reports(net.b.host().address(), net.b.number()).size() == 256);
  CHECK(*std::min_element(net.sent.begin(), net.sent.begin() + 5) < 100);  // questions
  CHECK(stream.bytes() > 50'000'000);
}

TEST_CASE("a restarted peer is reached on all rails again") {
  RailsTwo net(rails_options(2));
  for (uint32_t round = 0; round < 3; ++round) {
    {
      Stream stream(net.world.network, net.a, net.b, 4096, 8);
      net.world.run_for(kRailsMs * 5);
      stream.stop();
      net.world.run_for(kRailsMs * 2);
      REQUIRE(stream.idle());
    }
    CHECK(net.joined(net.a) == 2);
    // What comes back on the second one is known to be its.
    CHECK(net.a.count(Count::rx_unknown_peer) == 0);
    for (const PathReport& path :
         net.a.engine().path_reports(net.b.host().address(), net.b.number()))
      CHECK(path.health == PathHealth::good);
    SrdStation& dies = round % 2 == 0 ? net.b : net.a;
    dies.restart();
    net.watch(dies);
    net.world.run_for(kRailsMs * 5);
    if (round % 2 != 0) continue;
    // The first request detects it; it may fail, because it is not known what was executed.
    REQUIRE(net.a.write(net.b, 64));
    net.world.run_for(kRailsMs * 50);
    REQUIRE(net.a.sent().size() == 1);
  }
}

// SRD.md: "a process that has come back at several addresses is found by its primary only".
TEST_CASE("a peer that restarts while its first address is dead is not reached until that works") {
  SrdOptions o = rails_options(2);
  o.config.dead_peer_timeout = kRailsMs * 200;
  RailsTwo net(o);
  {
    Stream stream(net.world.network, net.a, net.b, 4096, 8);
    net.world.run_for(kRailsMs * 5);
    stream.stop();
    net.world.run_for(kRailsMs * 2);
    REQUIRE(stream.idle());
  }
  REQUIRE(net.joined(net.a) == 2);
  net.cut[0] = true;
  net.b.restart();
  net.watch(net.b);
  *net.b.at(0) = std::byte{7};
  const auto write = [&](Duration wait) {
    REQUIRE(net.a.write(net.b, 64));
    net.world.run_for(wait);
    const auto done = net.a.sent();
    REQUIRE(done.size() == 1);
    return done[0].status;
  };
  // It ends after the patience, with an error of its own, and nothing of it is executed.
  CHECK(write(kRailsMs * 450) == Status::retry_exceeded);
  CHECK(*net.b.at(0) == std::byte{7});
  // The first address works again: so does the peer, for the same queue pair.
  net.cut[0] = false;
  Status status = write(kRailsMs * 100);
  if (status != Status::success) status = write(kRailsMs * 100);  // the one that finds out may fail
  CHECK(status == Status::success);
  CHECK(*net.b.at(0) == *net.a.at(0));
}

}  // namespace
}  // namespace weft::test
