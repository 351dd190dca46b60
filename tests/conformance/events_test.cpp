// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events of the device: its interface goes down and up, its address is removed and
// added, and the effect on connections. And the delivery of events.
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/conformance/fixture.hpp"

using namespace weft;
using namespace weft::test;

namespace {

void shell(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

bool events_readable(const Device& device, int limit_ms) {
  pollfd wanted{device.event_fd(), POLLIN, 0};
  return ::poll(&wanted, 1, limit_ms) == 1;
}

// Takes events of a device until one of `type`, sleeping on the descriptor: no thread polls.
std::vector<EventType> events_until(const Device& device, EventType type) {
  std::vector<EventType> all;
  const Deadline deadline;
  while (!deadline.passed()) {
    while (const auto event = device.next_event()) {
      all.push_back(event->type);
      if (event->type == type) return all;
    }
    (void)events_readable(device, 1000);
  }
  return all;
}

using Types = std::vector<EventType>;

// Two sides with a connection, which is to outlive trouble below.
struct Connected {
  Side a, b;
  QueuePair qa, qb;
  Buffer near, far;

  Connected(const std::string& spec_a, const std::string& spec_b)
      : a(spec_a), b(spec_b), qa(a.queue_pair()), qb(b.queue_pair()), near(a, 4096), far(b, 4096) {
    connect(qa, qb, {.timeout = 16});  // 0.27 s, seven times
    write(1);
    arrives(1);
  }
  void write(uint64_t seed) {
    fill(near.bytes(), seed);
    const Sge out = near.sge(0, 4096);
    REQUIRE(qa.post_send({.id = seed,
                          .opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
  }
  void arrives(uint64_t seed) {
    REQUIRE(pump_until({&a, &b}, [&] { return !a.got.empty(); }));
    CHECK(a.got[0].id == seed);
    CHECK(a.got[0].status == Status::success);
    a.got.clear();
    CHECK(equal(near.bytes(), far.bytes()));
  }
  // Polls for a while in which nothing can arrive.
  void expect_no_completion() {
    const Deadline deadline(Duration::from_ms(100));
    pump_until({&a, &b}, [&] { return deadline.passed(); });
    CHECK(a.got.empty());
  }
};

void down_and_up(Connected& c, const std::string& interface) {
  for (uint64_t round = 2; round < 4; ++round) {
    shell("ip link set " + interface + " down");
    CHECK(events_until(c.a.device, EventType::port_error).back() == EventType::port_error);
    CHECK(events_until(c.b.device, EventType::port_error).back() == EventType::port_error);
    c.write(round);
    c.expect_no_completion();
    CHECK(c.qa.state() == QpState::rts);
    shell("ip link set " + interface + " up");
    CHECK(events_until(c.a.device, EventType::port_active) == Types{EventType::port_active});
    CHECK(events_until(c.b.device, EventType::port_active) == Types{EventType::port_active});
    c.arrives(round);
  }
}

#define WEFT_NEEDS_NAMESPACE(name) \
  const Namespace own;             \
  if (!own) WEFT_SKIP(name, "a network namespace needs root")

TEST_CASE("events: lo goes down and up, and connections go on, roce:C-AV-100") {
  WEFT_NEEDS_NAMESPACE("events: lo goes down and up, and connections go on, roce:C-AV-100");
  Connected c("roce+udp:lo", "roce+udp:lo");
  down_and_up(c, "lo");
}

void one_end(Wire wire) {
  const std::string device = device_string(wire);  // of either end: wire?
  Connected c(device, device);
  down_and_up(c, "wire0");
}
WEFT_ON_WIRE(one_end, "events: one end of a wire goes down and up, roce:C-AV-100", af_packet)
WEFT_ON_WIRE(one_end, "events: one end of a wire goes down and up, roce:C-AV-100", af_xdp)

// The driver says nothing of the interface below it; the kernel does.
void below_dpdk(Wire) {
  const Ground veth(Wire::af_packet);
  if (!veth.missing().empty())
    WEFT_SKIP("events: the interface below dpdk goes down and up, roce:C-AV-100 @dpdk",
              veth.missing());
  Connected c("roce+dpdk:net_af_packet,dpdk.iface=wire0,dpdk.address=10.80.0.11",
              "roce+dpdk:net_af_packet,dpdk.iface=wire1,dpdk.address=10.80.0.12");
  down_and_up(c, "wire0");
}
WEFT_ON_WIRE(below_dpdk, "events: the interface below dpdk goes down and up, roce:C-AV-100", dpdk)

TEST_CASE("events: an address that goes and comes back, roce:C-AV-99") {
  WEFT_NEEDS_NAMESPACE("events: an address that goes and comes back, roce:C-AV-99");
  shell(
      "ip link add w0 type veth peer name w1 && ip link set w0 up && ip link set w1 up && "
      "ip addr add 10.80.0.1/24 dev w0");
  Connected c("roce+udp:w0", "roce+udp:10.80.0.1");
  // Another address, the same on another interface, and ours once more cause no event.
  shell("ip addr add 10.80.0.9/24 dev w0 && ip addr del 10.80.0.9/24 dev w0");
  shell("ip addr add 10.80.0.1/32 dev w1 && ip addr del 10.80.0.1/32 dev w1");
  shell("ip addr change 10.80.0.1/24 dev w0 valid_lft 1000 preferred_lft 1000");
  shell("ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v0 down");
  CHECK(!events_readable(c.a.device, 50));
  for (uint64_t round = 2; round < 4; ++round) {
    shell("ip addr del 10.80.0.1/24 dev w0");
    CHECK(events_until(c.a.device, EventType::gid_change) == Types{EventType::gid_change});
    c.write(round);
    c.expect_no_completion();
    // A thread that polls all the time gets it too.
    shell("ip addr add 10.80.0.1/24 dev w0");
    CHECK(pump_until({&c.a, &c.b}, [&] { return saw_event(c.a.device, EventType::gid_change); }));
    c.arrives(round);
  }
  CHECK(events_until(c.b.device, EventType::gid_change).size() == 1);
}

TEST_CASE("events: an address that stays away costs its connections, roce:C-AV-99") {
  WEFT_NEEDS_NAMESPACE("events: an address that stays away costs its connections, roce:C-AV-99");
  shell(
      "ip link add w0 type veth peer name w1 && ip link set w0 up && ip link set w1 up && "
      "ip addr add 10.80.0.1/24 dev w0");
  Side a("roce+udp:w0"), b("roce+udp:w0");
  const QueuePair qa = a.queue_pair(), qb = b.queue_pair();
  const Buffer near(a, 64), far(b, 64);
  connect(qa, qb, {.timeout = 10, .retry_count = 3});
  shell("ip addr del 10.80.0.1/24 dev w0");
  const Sge out = near.sge(0, 64);
  REQUIRE(qa.post_send({.opcode = Opcode::write,
                        .sges = {&out, 1},
                        .remote_address = far.address(),
                        .rkey = far.region.rkey()}));
  REQUIRE(pump_until({&a, &b}, [&] { return !a.got.empty(); }));
  CHECK(a.got[0].status == Status::retry_exceeded);
  CHECK(qa.state() == QpState::err);
}

TEST_CASE("events: without a thread they come with next_event(), roce:C-AV-100") {
  WEFT_NEEDS_NAMESPACE("events: without a thread they come with next_event(), roce:C-AV-100");
  const Side side("roce+udp:lo,single_thread=1");
  CHECK(!side.device.next_event());
  shell("ip link set lo down && ip link set lo up");
  Types all;
  while (const auto event = side.device.next_event()) all.push_back(event->type);
  CHECK(all == Types{EventType::port_error, EventType::port_active});
}

TEST_CASE("events: a storm of them is read to its end, roce:C-AV-100") {
  WEFT_NEEDS_NAMESPACE("events: a storm of them is read to its end, roce:C-AV-100");
  const Side side("roce+udp:lo,single_thread=1");
  // More messages than the socket holds: some are lost, and what is then is found out.
  shell(
      "i=0; while [ $i -lt 400 ]; do echo 'link set lo down'; echo 'link set lo up'; "
      "i=$((i+1)); done > /tmp/weft-storm-$$ && echo 'link set lo down' >> /tmp/weft-storm-$$ && "
      "ip -batch /tmp/weft-storm-$$; s=$?; rm /tmp/weft-storm-$$; exit $s");
  Types all;
  while (const auto event = side.device.next_event()) all.push_back(event->type);
  REQUIRE(!all.empty());
  CHECK(all.back() == EventType::port_error);
  bool up = true;  // they take turns
  for (const EventType type : all) {
    CHECK(type == (up ? EventType::port_error : EventType::port_active));
    up = !up;
  }
}

TEST_CASE("events: of several engines each comes once, roce:C-AV-100") {
  WEFT_NEEDS_NAMESPACE("events: of several engines each comes once, roce:C-AV-100");
  const Side side("roce+udp:lo,engines=3");
  shell("ip link set lo down && ip link set lo up");
  CHECK(events_until(side.device, EventType::port_active) ==
        Types{EventType::port_error, EventType::port_active});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(!side.device.next_event());
}

// Each event is delivered once, and destruction does not wait for events that were not taken.
void handed_over_once(Wire wire) {
  Pair p(wire);
  CHECK(!p.a.device.next_event());
  const uint32_t number = p.qa.number().value;
  REQUIRE(p.qa.modify({.state = QpState::sqd, .sq_drained_event = true}));
  REQUIRE(events_readable(p.a.device, 1000));
  const auto event = p.a.device.next_event();
  REQUIRE(event);
  CHECK(event->type == EventType::sq_drained);
  CHECK(event->qp.value == number);
  CHECK(!p.a.device.next_event());
  CHECK(!events_readable(p.a.device, 0));
  REQUIRE(p.qa.modify({.state = QpState::rts}));
  REQUIRE(p.qa.modify({.state = QpState::sqd, .sq_drained_event = true}));
  p.qa = {};  // goes, though its event waits
  const auto late = p.a.device.next_event();
  REQUIRE(late);
  CHECK(late->qp.value == number);
  CHECK(!p.a.device.next_event());
}
WEFT_ON_WIRE(handed_over_once, "events: each is handed over once, roce:C-EVT-109", udp)
WEFT_ON_WIRE(handed_over_once, "events: each is handed over once, roce:C-EVT-109", udp_engines)
WEFT_ON_WIRE(handed_over_once, "events: each is handed over once, roce:C-EVT-109", shm)

}  // namespace
