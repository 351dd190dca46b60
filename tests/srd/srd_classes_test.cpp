// SPDX-License-Identifier: BSD-3-Clause
// Messages of two classes to one peer, in a network that has a shorter way for one of them: packets
// of one path overtake each other by class, which looks like a loss. Everything is executed once,
// and the number of spurious retransmissions is bounded.
#include <cstdio>

#include "tests/srd/srd_spines.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint8_t kExpedited = 46 << 2;  // a traffic class: DSCP 46

// Where both go to one host: expedited packets by one link, all others by a longer one.
class ByClass final : public sim::Node {
 public:
  ByClass(sim::Network& network, sim::Node& end, Duration more) {
    sim::LinkOptions link;
    link.queue_bytes = 4u << 20;
    expedited_ = std::make_unique<sim::Link>(network.events(), network.pool(), end, link);
    link.delay = link.delay + more;
    others_ = std::make_unique<sim::Link>(network.events(), network.pool(), end, link);
  }
  void arrive(sim::Packet* packet, Instant) override {
    const bool expedited = (packet->path.traffic_class & 0xFC) == kExpedited;
    (void)(expedited ? expedited_ : others_)->send(packet);
  }

 private:
  std::unique_ptr<sim::Link> expedited_, others_;
};

// `count` fetch-and-adds of one word, of both classes in turns or of one, eight at a time: how many
// packets were retransmitted.
uint64_t add(uint32_t count, Duration more, bool both) {
  SrdOptions o = controlled("nscc");
  o.config.paths = 4;
  o.memory = 1u << 16;
  sim::Network network;
  SrdStation a(network, 0, o), b(network, 1, o);
  ByClass there(network, b.host(), more), back(network, a.host(), Duration{});
  network.uplink(a.host(), there, {});
  network.uplink(b.host(), back, {});
  const auto handle = [&](uint8_t traffic_class) {
    return AddressHandle(
        AddressVector{.destination = b.host().address(), .traffic_class = traffic_class});
  };
  const AddressHandle expedited = handle(kExpedited), usual = handle(0);
  uint32_t posted = 0, done = 0;
  const Instant end = network.now() + Duration::from_s(5);
  while (done != count && network.now() < end) {
    for (; posted < count && posted < done + 8; ++posted) {
      const Sge sge = a.sge(8 * (posted % 1024), 8);
      SendRequest r;
      r.opcode = Opcode::fetch_add;
      r.sges = {&sge, 1};
      r.remote_address = b.address_of(0);
      r.rkey = RKey{b.key()};
      r.compare_add = 1;
      r.to = both && posted % 2 == 0 ? &expedited : &usual;
      r.remote_qpn = b.number();
      REQUIRE(a.post(b, r));
    }
    REQUIRE(network.events().step());
    for (const Completion& c : a.sent()) {
      REQUIRE(c.status == Status::success);
      ++done;
    }
  }
  CHECK(done == count);
  CHECK(b.word(0) == count);
  const uint64_t again = a.count(Count::tx_retransmits);
  std::printf("%s, %.0f us apart: %u requests, %llu packets sent again\n",
              both ? "two classes" : "one class", static_cast<double>(more.ps) / 1e6, count,
              static_cast<unsigned long long>(again));
  return again;
}

TEST_CASE("classes that overtake each other look like losses, and are executed once") {
  constexpr uint32_t kRequests = 4000;
  for (const int us : {1, 5, 20, 100}) {
    INFO(us << " us apart");
    const Duration more = Duration::from_us(us);
    CHECK(add(kRequests, more, false) <= 1);  // the first, while no round trip is known
    const uint64_t again = add(kRequests, more, true);
    // The reorder tolerance of a path grows with reported duplicates. Where a class takes longer
    // than the least time-out, each of its packets goes twice at most.
    CHECK(again <= (us < 100 ? 40 : kRequests / 2 + 40));
  }
}

// Ids in the order in which WRITEs to one peer are done; those with an odd id are expedited.
std::vector<uint64_t> order_of(std::span<const uint32_t> lengths) {
  SrdOptions o = controlled("nscc");
  o.memory = 1u << 21;
  sim::Network network;
  SrdStation a(network, 0, o), b(network, 1, o);
  network.uplink(a.host(), b.host(), {});
  network.uplink(b.host(), a.host(), {});
  const auto handle = [&](uint8_t traffic_class) {
    return AddressHandle(
        AddressVector{.destination = b.host().address(), .traffic_class = traffic_class});
  };
  const AddressHandle expedited = handle(kExpedited), usual = handle(0);
  for (uint64_t id = 0; id < lengths.size(); ++id) {
    const Sge sge = a.sge(0, lengths[id]);
    SendRequest r;
    r.id = id;
    r.opcode = Opcode::write;
    r.sges = {&sge, 1};
    r.remote_address = b.address_of(0);
    r.rkey = RKey{b.key()};
    r.to = id % 2 == 1 ? &expedited : &usual;
    r.remote_qpn = b.number();
    REQUIRE(a.post(b, r));
  }
  std::vector<uint64_t> order;
  const Instant end = network.now() + Duration::from_s(5);
  while (order.size() < lengths.size() && network.now() < end) {
    REQUIRE(network.events().step());
    for (const Completion& c : a.sent()) {
      REQUIRE(c.status == Status::success);
      order.push_back(c.id);
    }
  }
  return order;
}

TEST_CASE("a message of an urgent class overtakes messages posted before it") {
  constexpr uint32_t kLong = 1u << 20, kShort = 64;
  CHECK(order_of(std::vector{kLong / 2, kLong}) == std::vector<uint64_t>{1, 0});
  CHECK(order_of(std::vector{kLong, kShort, 2 * kLong, kLong / 4}) ==
        std::vector<uint64_t>{1, 3, 0, 2});
  // But does not stop them.
  CHECK(order_of(std::vector{kShort, kLong}) == std::vector<uint64_t>{0, 1});
}

}  // namespace
}  // namespace weft::test
