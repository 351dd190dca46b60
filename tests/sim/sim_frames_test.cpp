// SPDX-License-Identifier: BSD-3-Clause
// The simulator's own rules: order of events, times of links, bounds of queues, the hash of a run.
#include <algorithm>
#include <cstring>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/sim/frames/network.hpp"
#include "lib/wire/int_block.hpp"
#include "providers/port/sim/sim_port.hpp"
#include "tests/support/catch.hpp"

namespace weft::sim {
namespace {

struct Recorder final : EventHandler {
  std::vector<std::pair<int64_t, uint64_t>> seen;
  void on_event(Instant now, uint64_t argument) override { seen.push_back({now.ps, argument}); }
};

TEST_CASE("events run by time, and in the order of their scheduling at one time") {
  EventQueue queue;
  Recorder recorder;
  base::Random random(7);
  std::vector<std::pair<int64_t, uint64_t>> expected;
  for (uint64_t i = 0; i < 2000; ++i) {
    const int64_t at = static_cast<int64_t>(random.below(50));
    queue.schedule(Instant{at}, recorder, i);
    expected.push_back({at, i});
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  queue.run_until(Instant{20});
  CHECK(queue.now() == Instant{20});
  CHECK(queue.next() > Instant{20});
  while (queue.step()) {
  }
  CHECK(recorder.seen == expected);
  CHECK(queue.next().is_never());
}

TEST_CASE("an event in the past runs now") {
  EventQueue queue;
  Recorder recorder;
  queue.run_until(Instant{100});
  queue.schedule(Instant{5}, recorder, 1);
  queue.step();
  CHECK(recorder.seen == std::vector<std::pair<int64_t, uint64_t>>{{100, 1}});
}

struct Pair {
  Network network;
  Host& a = network.add_host(host_address(0));
  Host& b = network.add_host(host_address(1));

  Packet* packet(uint32_t length, uint8_t fill) {
    Packet* const p = network.pool().take();
    p->path.source = a.address();
    p->path.destination = b.address();
    p->length = length;
    std::memset(p->bytes, fill, length);
    return p;
  }
};

TEST_CASE("a link takes serialization time and delay, back to back") {
  Pair pair;
  // 80 ps per byte.
  pair.network.connect(pair.a, pair.b, {.rate = Rate::from_gbps(100)});
  Recorder arrivals;
  pair.b.notify(&arrivals, 3);
  for (int i = 0; i < 2; ++i)
    CHECK(pair.a.send(pair.packet(1000 - kWireOverhead, 1)) == Host::Sent::taken);
  pair.network.events().step();
  CHECK(pair.network.now() == Instant{1'000'000 + 80'000});
  pair.network.pool().give(pair.b.received().pop());
  pair.network.events().step();
  CHECK(pair.network.now() == Instant{1'000'000 + 160'000});
  CHECK(arrivals.seen.size() == 2);
  CHECK(arrivals.seen[1].second == 3);
  CHECK(pair.network.packets() == 2);
}

TEST_CASE("a full link refuses a packet, or drops it if configured to") {
  for (const bool drops : {false, true}) {
    Pair pair;
    pair.network.connect(pair.a, pair.b, {.queue_bytes = 2000, .drops = drops});
    int taken = 0;
    Host::Sent last = Host::Sent::taken;
    for (int i = 0; i < 4; ++i) {
      Packet* const p = pair.packet(1000 - kWireOverhead, 1);
      last = pair.a.send(p);
      taken += last == Host::Sent::taken;
      if (last != Host::Sent::taken) pair.network.pool().give(p);
    }
    while (pair.network.events().step()) {
    }
    CHECK(last == (drops ? Host::Sent::taken : Host::Sent::wait));
    CHECK(taken == (drops ? 4 : 3));
    CHECK(pair.b.received().size() == 3);
    CHECK(pair.network.pool().lent() == 3);
  }
}

TEST_CASE("INT of a link: its state at the start of serialisation") {
  Pair pair;
  // 80 ps per byte, 80 ns per packet.
  pair.network.connect(pair.a, pair.b, {.rate = Rate::from_gbps(100), .stamp = 7});
  const auto send = [&pair] {
    Packet* const p = pair.packet(1000 - kWireOverhead, 0);
    p->path.destination_port = wire::kIntUdpPort;
    const wire::IntBlock block;
    std::memcpy(p->bytes, &block, sizeof block);
    CHECK(pair.a.send(p) == Host::Sent::taken);
  };
  for (int i = 0; i < 3; ++i) send();
  pair.network.events().run_until(Instant{100'000});
  send();
  while (pair.network.events().step()) {
  }
  // The second one leaves when the fourth is not there yet, the third one after it has come.
  const uint32_t queues[] = {2000, 1000, 1000, 0};
  for (uint32_t i = 0; i < 4; ++i) {
    Packet* const p = pair.b.received().pop();
    const wire::IntBlock* const block = wire::find_int(p->bytes, p->length);
    REQUIRE(block != nullptr);
    CHECK(block->hops == 1);
    CHECK(block->path == 7);
    CHECK(block->records[0].rate_mbps == 100'000);
    CHECK(block->records[0].time_ns == 80 * i);
    CHECK(block->records[0].sent_bytes == 1000 * i);
    CHECK(block->records[0].queue_bytes == queues[i]);
    pair.network.pool().give(p);
  }
}

TEST_CASE("a packet without a route is refused") {
  Pair pair;
  Packet* const p = pair.packet(100, 1);
  CHECK(pair.a.send(p) == Host::Sent::no_route);
  pair.network.pool().give(p);
}

uint64_t hash_of(uint64_t seed, uint8_t last_byte) {
  Pair pair;
  pair.network.connect(pair.a, pair.b, {});
  base::Random random(seed);
  for (int i = 0; i < 100; ++i) {
    Packet* const p =
        pair.packet(static_cast<uint32_t>(random.below(300)), static_cast<uint8_t>(i));
    if (i == 99 && p->length != 0) p->bytes[p->length - 1] = std::byte{last_byte};
    CHECK(pair.a.send(p) == Host::Sent::taken);
  }
  while (pair.network.events().step()) {
  }
  return pair.network.hash().value();
}

TEST_CASE("the event hash identifies the run") {
  CHECK(hash_of(1, 7) == hash_of(1, 7));
  CHECK(hash_of(1, 7) != hash_of(1, 8));
  CHECK(hash_of(1, 7) != hash_of(2, 7));
  // The same from every compiler: a number written down once.
  CHECK(hash_of(3, 1) == 0x1433AA2B064AAD80);
}

TEST_CASE("a simulated port carries a frame with its path, id and mark") {
  Pair pair;
  pair.network.connect(pair.a, pair.b, {});
  port::SimPort from(pair.a), to(pair.b);
  transport::Path path;
  path.source = from.address();
  path.destination = to.address();
  path.source_port = 0xC123;
  const std::byte bytes[20] = {std::byte{1}, std::byte{2}};
  transport::TxFrame frame;
  frame.path = &path;
  frame.head = bytes;
  frame.head_length = sizeof bytes;
  frame.ip_id = 5;
  frame.ecn = 3;
  CHECK(from.transmit({&frame, 1}) == 1);
  transport::Frame got[4];
  CHECK(to.receive(got) == 0);
  pair.network.events().step();
  std::vector<pollfd> none;
  CHECK_FALSE(to.prepare_wait(none, false));
  REQUIRE(to.receive(got) == 1);
  CHECK(got[0].path->source == from.address());
  CHECK(got[0].path->source_port == 0xC123);
  CHECK(got[0].length == sizeof bytes);
  CHECK(std::memcmp(got[0].bytes, bytes, sizeof bytes) == 0);
  CHECK(got[0].ip_id == 5);
  CHECK(got[0].ecn == 3);
  to.release({got, 1});
  CHECK(pair.network.pool().lent() == 0);
  CHECK(to.prepare_wait(none, false));
  // Nowhere to go: taken, and counted.
  path.destination = host_address(9);
  CHECK(from.transmit({&frame, 1}) == 1);
  std::vector<Counter> counters;
  from.append_counters(counters);
  CHECK(counters[0].value == 1);
}

}  // namespace
}  // namespace weft::sim
