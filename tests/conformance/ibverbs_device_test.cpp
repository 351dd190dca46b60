// SPDX-License-Identifier: BSD-3-Clause
// What happens to the device of the kernel below an open one: its network interface (which
// WEFT_TEST_INTERFACE names) goes down and up. Only in a guest: tests/interop/ibverbs_test.py.
#include <poll.h>

#include <cstdlib>

#include "tests/conformance/fixture.hpp"

namespace weft {
namespace {

using namespace test;

void set_interface(const char* state) {
  const char* const interface = std::getenv("WEFT_TEST_INTERFACE");
  REQUIRE(interface != nullptr);
  const std::string command = std::string("ip link set ") + interface + " " + state;
  REQUIRE(std::system(command.c_str()) == 0);
}

// Waits for one event of a type, on the descriptor.
bool wait_for_event(const Device& device, EventType type) {
  const Deadline deadline;
  while (!deadline.passed()) {
    if (saw_event(device, type)) return true;
    pollfd wanted{device.event_fd(), POLLIN, 0};
    (void)::poll(&wanted, 1, 1000);
  }
  return false;
}

void down_and_up(Wire wire) {
  const std::string spec = device_string(wire);
  Pair p(wire);
  const Buffer near(p.a, 4096), far(p.b, 4096);
  const Sge out = near.sge(0, 4096);
  const SendRequest write{.opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()};
  for (uint64_t round = 0; round < 3; ++round) {
    fill(near.bytes(), round);
    set_interface("down");
    CHECK(wait_for_event(p.a.device, EventType::port_error));
    CHECK(wait_for_event(p.b.device, EventType::port_error));  // each open device is told
    const Result<Device> refused = Device::open(spec);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("is down") != std::string::npos);
    set_interface("up");
    CHECK(wait_for_event(p.a.device, EventType::port_active));
    REQUIRE(p.qa.post_send(write));
    CHECK(p.next(p.a).status == Status::success);
    CHECK(equal(near.bytes(), far.bytes()));
    CHECK(Device::open(spec));
  }
}
WEFT_ON_IBVERBS(down_and_up, "a port that goes down and up is told, and its connections go on")

// Any address of the port counts, not only the device's own.
void address_comes(Wire wire) {
  const Side side(device_string(wire));
  const char* const interface = std::getenv("WEFT_TEST_INTERFACE");
  REQUIRE(interface != nullptr);
  for (const char* const what : {"add", "del"}) {
    const std::string command = std::string("ip addr ") + what + " 10.99.0.1/24 dev " + interface;
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK(wait_for_event(side.device, EventType::gid_change));
  }
}
WEFT_ON_IBVERBS(address_comes, "an address that comes or goes is told (C-AV-99)")

// Many events that nobody has asked for neither block a call nor hold the device back at the end.
void unread_events(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 64);
  for (int round = 0; round < 20; ++round) {
    set_interface("down");
    set_interface("up");
  }
  REQUIRE(p.qa.post_send({.opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
  CHECK(p.next(p.a).status == Status::success);
  size_t events = 0;
  while (p.a.device.next_event()) ++events;
  CHECK(events >= 20);
}
WEFT_ON_IBVERBS(unread_events, "a storm of events harms nobody")

}  // namespace
}  // namespace weft
