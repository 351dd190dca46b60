// SPDX-License-Identifier: BSD-3-Clause
// Flows that keep coming to the wrong queue, and the rules that bring them to the right one: which
// are asked for and when, what the device is told, how many there are, when they go. The device is
// a double: rte_flow_create() and rte_flow_destroy() of this program stand before DPDK's.
#include <rte_flow.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "lib/wire/headers.hpp"
#include "providers/port/dpdk/device.hpp"
#include "providers/port/dpdk/steering.hpp"
#include "tests/support/catch.hpp"

namespace {

// What one rule says, as far as it can be said.
struct Told {
  std::vector<int> items;
  uint16_t port = 0, queue = 0, tci = 0;
  rte_ipv4_hdr ipv4{};
  rte_ipv6_hdr ipv6{};
  rte_udp_hdr udp{};
  bool exact = true, ingress = false;
};

struct Double {
  std::mutex mutex;
  std::vector<Told> told;
  std::set<rte_flow*> rules;
  bool refuses = false;
  size_t count() {
    const std::lock_guard<std::mutex> lock(mutex);
    return told.size();
  }
  size_t made() {
    const std::lock_guard<std::mutex> lock(mutex);
    return rules.size();
  }
};

Double& device() {
  static Double only;
  return only;
}

bool all_ones(const void* bytes, size_t size) {
  const auto* const b = static_cast<const uint8_t*>(bytes);
  return std::all_of(b, b + size, [](uint8_t byte) { return byte == 0xFF; });
}

}  // namespace

extern "C" {

rte_flow* rte_flow_create(uint16_t port, const rte_flow_attr* attributes, const rte_flow_item* item,
                          const rte_flow_action* action, rte_flow_error*) {
  Told t;
  t.port = port;
  t.ingress = attributes->ingress != 0 && attributes->egress == 0;
  for (; item->type != RTE_FLOW_ITEM_TYPE_END; ++item) {
    t.items.push_back(item->type);
    if (item->type == RTE_FLOW_ITEM_TYPE_VLAN) {
      t.tci = rte_be_to_cpu_16(static_cast<const rte_flow_item_vlan*>(item->spec)->tci);
    } else if (item->type == RTE_FLOW_ITEM_TYPE_IPV4) {
      t.ipv4 = static_cast<const rte_flow_item_ipv4*>(item->spec)->hdr;
      const auto* const mask = static_cast<const rte_flow_item_ipv4*>(item->mask);
      t.exact &= all_ones(&mask->hdr.src_addr, 8);
    } else if (item->type == RTE_FLOW_ITEM_TYPE_IPV6) {
      t.ipv6 = static_cast<const rte_flow_item_ipv6*>(item->spec)->hdr;
      const auto* const mask = static_cast<const rte_flow_item_ipv6*>(item->mask);
      t.exact &= all_ones(&mask->hdr.src_addr, 16) && all_ones(&mask->hdr.dst_addr, 16);
    } else if (item->type == RTE_FLOW_ITEM_TYPE_UDP) {
      t.udp = static_cast<const rte_flow_item_udp*>(item->spec)->hdr;
      const auto* const mask = static_cast<const rte_flow_item_udp*>(item->mask);
      t.exact &= all_ones(&mask->hdr.src_port, 4);
    }
  }
  if (action->type == RTE_FLOW_ACTION_TYPE_QUEUE)
    t.queue = static_cast<const rte_flow_action_queue*>(action->conf)->index;
  Double& d = device();
  const std::lock_guard<std::mutex> lock(d.mutex);
  d.told.push_back(t);
  if (d.refuses) return nullptr;
  auto* const handle = reinterpret_cast<rte_flow*>(0x1000 + 8 * d.told.size());
  d.rules.insert(handle);
  return handle;
}

int rte_flow_destroy(uint16_t, rte_flow* rule, rte_flow_error*) {
  Double& d = device();
  const std::lock_guard<std::mutex> lock(d.mutex);
  return d.rules.erase(rule) == 1 ? 0 : -1;
}

}  // extern "C"

namespace weft::port::dpdk {
namespace {

Flow flow_of(uint16_t source_port) {
  return {Gid::from_ipv4(10, 0, 0, 7), Gid::from_ipv4(10, 0, 0, 8), source_port, 4791};
}

template <class Condition>
bool is_met(Condition condition) {
  using namespace std::chrono_literals;
  for (int i = 0; i < 20'000; ++i, std::this_thread::sleep_for(1ms))
    if (condition()) return true;
  return false;
}

struct Ground {
  Ground() {
    Options options;
    options.huge = HugePages::never;
    options.memory_mb = 64;
    const Result<void> started = start_eal(options);
    INFO((started ? "" : started.error().message));
    REQUIRE(started);
    const std::lock_guard<std::mutex> lock(device().mutex);
    device().told.clear();
    device().rules.clear();
    device().refuses = false;
  }
};

TEST_CASE("dpdk steering: a flow requests a rule at its threshold, which then doubles") {
  MisplacedFlows flows;
  for (const uint32_t threshold : {64u, 128u, 256u}) {
    uint32_t frames = 1;
    while (!flows.count(flow_of(0xC001), 1)) ++frames;
    CHECK(frames == threshold);
  }
  uint32_t frames = 1;  // another flow is counted apart
  while (!flows.count(flow_of(0xC002), 1)) ++frames;
  CHECK(frames == 64);
}

TEST_CASE("dpdk steering: of flows in one table entry the busiest requests a rule") {
  MisplacedFlows flows;
  std::vector<uint16_t> asked;
  for (int round = 0; round < 400; ++round)
    for (uint16_t source = 0xC000; source < 0xC400; ++source)  // four for each place
      for (int times = 0; times < (source == 0xC123 ? 8 : 1); ++times)
        if (flows.count(flow_of(source), 1)) asked.push_back(source);
  CHECK(std::count(asked.begin(), asked.end(), 0xC123) >= 1);
  CHECK(asked.size() < 1024);
}

TEST_CASE("dpdk steering: a rule has the addresses, both ports and the queue") {
  const Ground ground;
  Steering steering(3, 4, 0);
  steering.request_rule(flow_of(0xC005), 2, QpNum{0x30007});
  REQUIRE(is_met([&] { return steering.rules() == 1; }));
  const Told& t = device().told.at(0);
  CHECK(t.items ==
        std::vector<int>{RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_UDP});
  CHECK(t.port == 3);
  CHECK(t.queue == 2);
  CHECK(t.exact);
  CHECK(t.ingress);
  CHECK(t.ipv4.src_addr == RTE_BE32(0x0A000007));
  CHECK(t.ipv4.dst_addr == RTE_BE32(0x0A000008));
  CHECK(t.udp.src_port == RTE_BE16(0xC005));
  CHECK(t.udp.dst_port == RTE_BE16(4791));
}

TEST_CASE("dpdk steering: IPv6 and VLAN") {
  const Ground ground;
  Steering steering(0, 2, 77);
  const Flow flow{*parse_gid("fd00::7"), *parse_gid("fd00::8"), 0xC006, 4792};
  steering.request_rule(flow, 1, QpNum{0x20001});
  REQUIRE(is_met([&] { return steering.rules() == 1; }));
  const Told& t = device().told.at(0);
  CHECK(t.items == std::vector<int>{RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_VLAN,
                                    RTE_FLOW_ITEM_TYPE_IPV6, RTE_FLOW_ITEM_TYPE_UDP});
  CHECK(t.tci == 77);
  CHECK(t.exact);
  CHECK(std::memcmp(&t.ipv6.src_addr, flow.source.bytes.data(), 16) == 0);
  CHECK(std::memcmp(&t.ipv6.dst_addr, flow.destination.bytes.data(), 16) == 0);
  CHECK(t.udp.dst_port == RTE_BE16(4792));
}

TEST_CASE("dpdk steering: frames that are handed over lead to a rule for their queue pair") {
  const Ground ground;
  Steering steering(0, 2, 0);
  wire::Bth bth;
  bth.dest_qpn = 0x20009u;
  transport::Path path;
  path.source = Gid::from_ipv4(10, 0, 0, 7);
  path.destination = Gid::from_ipv4(10, 0, 0, 8);
  transport::Frame frame;
  frame.path = &path;
  frame.bytes = reinterpret_cast<const std::byte*>(&bth);
  frame.length = 6;  // too short to say whose it is
  for (uint32_t i = 0; i < 10 * MisplacedFlows::kFirstThreshold; ++i)
    steering.misplaced(0, 1, frame);
  frame.length = sizeof bth;
  for (uint32_t i = 1; i < MisplacedFlows::kFirstThreshold; ++i) steering.misplaced(0, 1, frame);
  usleep(20'000);
  CHECK(device().made() == 0);
  steering.misplaced(0, 1, frame);
  REQUIRE(is_met([&] { return steering.rules() == 1; }));
  CHECK(device().told.at(0).queue == 1);
  steering.forget(QpNum{0x20008});
  steering.forget(QpNum{0x20009});
  CHECK(is_met([&] { return steering.rules() == 0; }));
  CHECK(device().made() == 0);
}

TEST_CASE("dpdk steering: a flow keeps its rule, one of another queue pair stays") {
  const Ground ground;
  Steering steering(0, 2, 0);
  steering.request_rule(flow_of(1), 1, QpNum{0x20001});
  steering.request_rule(flow_of(1), 0, QpNum{0x10001});
  steering.request_rule(flow_of(2), 1, QpNum{0x20002});
  REQUIRE(is_met([&] { return steering.rules() == 2; }));
  CHECK(device().told.size() == 2);
  steering.forget(QpNum{0x20001});
  CHECK(is_met([&] { return steering.rules() == 1; }));
  CHECK(device().made() == 1);
  steering.request_rule(flow_of(1), 0, QpNum{0x10001});  // free again
  CHECK(is_met([&] { return steering.rules() == 2; }));
}

TEST_CASE("dpdk steering: rules are removed when all queue pairs are destroyed at once") {
  const Ground ground;
  Steering steering(0, 2, 0);
  constexpr uint16_t kMany = 200;
  for (uint16_t i = 0; i < kMany; ++i) {
    steering.request_rule(flow_of(i), 1, QpNum{0x20000u + i});
    REQUIRE(is_met([&] { return steering.rules() > i; }));
  }
  device().mutex.lock();  // the control thread is held up
  for (uint16_t i = 0; i < kMany; ++i) steering.forget(QpNum{0x20000u + i});
  device().mutex.unlock();
  CHECK(is_met([&] { return steering.rules() == 0; }));
  CHECK(device().made() == 0);
}

TEST_CASE("dpdk steering: a queue pair may be destroyed while its rule is created") {
  const Ground ground;
  Steering steering(0, 2, 0);
  device().mutex.lock();
  steering.request_rule(flow_of(1), 1, QpNum{0x20001});
  steering.request_rule(flow_of(2), 1, QpNum{0x20002});
  usleep(20'000);  // the control thread is at the first, most likely
  steering.forget(QpNum{0x20001});
  steering.forget(QpNum{0x20002});
  steering.request_rule(flow_of(3), 1, QpNum{0x20003});
  device().mutex.unlock();
  CHECK(is_met([&] { return steering.rules() == 1 && device().made() == 1; }));
  CHECK(device().told.back().udp.src_port == RTE_BE16(3));
}

TEST_CASE("dpdk steering: rules are bounded, refusals counted, all removed at the end") {
  const Ground ground;
  {
    Steering steering(0, 2, 0, Duration::from_ms(3'600'000));
    for (uint16_t i = 0; i < Steering::kMaxRules + 3; ++i) {
      steering.request_rule(flow_of(i), 1, QpNum{0x20000u + i});
      REQUIRE(is_met([&] { return steering.rules() + steering.refused() > i; }));
    }
    CHECK(steering.rules() == Steering::kMaxRules);
    CHECK(steering.refused() == 3);
    CHECK(device().made() == Steering::kMaxRules);
    device().refuses = true;
    steering.forget(QpNum{0x20000});
    steering.request_rule(flow_of(0), 1, QpNum{0x20000});
    CHECK(is_met([&] { return steering.refused() == 4; }));
    CHECK(steering.rules() == Steering::kMaxRules - 1);
  }
  CHECK(device().made() == 0);
}

TEST_CASE(
    "dpdk steering: the oldest rule makes room, so that made-up flows take no place for ever") {
  const Ground ground;
  Steering steering(0, 2, 0, Duration::from_ms(0));
  constexpr uint16_t kMany = Steering::kMaxRules + 3;
  for (uint16_t i = 0; i < kMany; ++i) {
    steering.request_rule(flow_of(i), 1, QpNum{0x20000u + i});
    REQUIRE(is_met([&] { return device().count() == size_t{i} + 1; }));
  }
  CHECK(is_met([&] { return steering.rules() == Steering::kMaxRules; }));
  CHECK(device().made() == Steering::kMaxRules);
  CHECK(steering.refused() == 0);
  for (uint16_t i = 3; i < kMany; ++i) steering.forget(QpNum{0x20000u + i});
  CHECK(is_met([&] { return steering.rules() == 0; }));  // the first three were gone
}

}  // namespace
}  // namespace weft::port::dpdk
