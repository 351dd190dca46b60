// SPDX-License-Identifier: BSD-3-Clause
// Events of the kernel's device under an open ibverbs device: its network interface (named by
// WEFT_TEST_INTERFACE) goes down and up. Only in a guest: tests/interop/ibverbs_test.py.
#include <poll.h>

#include <cstdio>
#include <cstdlib>

#include "tests/conformance/fixture.hpp"
#include "weft/cm.hpp"

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

void ibverbs_device_down_and_up(Wire wire) {
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
    CHECK(wait_for_event(p.b.device, EventType::port_error));  // each open device gets it
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
WEFT_ON_IBVERBS(ibverbs_device_down_and_up,
                "a port that goes down and up raises events, and connections continue")

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
WEFT_ON_IBVERBS(address_comes, "an address that is added or removed raises an event (C-AV-99)")

// The port's own address goes while requests are in progress, and comes back: each request ends,
// with success or an error, and a new connection works.
void own_address_goes(Wire wire) {
  const std::string spec = device_string(wire);
  const char* const interface = std::getenv("WEFT_TEST_INTERFACE");
  REQUIRE(interface != nullptr);
  const auto change = [&](const char* what) {
    const std::string command = std::string("ip addr ") + what + " 10.77.0.2/24 dev " + interface;
    REQUIRE(std::system(command.c_str()) == 0);
  };
  {
    Pair p(wire, {.walk = {.timeout = 10, .retry_count = 3}});
    const Buffer near(p.a, 4096), far(p.b, 4096);
    const Sge out = near.sge(0, 4096);
    const auto write_all = [&](uint64_t first) {
      for (uint64_t id = first; id < first + 100; ++id)
        REQUIRE(p.qa.post_send({.id = id,
                                .opcode = Opcode::write,
                                .sges = {&out, 1},
                                .remote_address = far.address(),
                                .rkey = far.region.rkey()}));
    };
    write_all(0);
    change("del");
    CHECK(wait_for_event(p.a.device, EventType::gid_change));
    CHECK(p.wait(p.a, 100).size() == 100);
    write_all(100);
    Status first = Status::success;
    for (const Completion& c : p.wait(p.a, 100)) {
      if (first == Status::success)
        first = c.status;
      else
        CHECK(c.status == Status::flushed);
    }
    std::printf("without its address: %s\n", weft::name(first).data());
    change("add");
    CHECK(wait_for_event(p.a.device, EventType::gid_change));
  }
  Pair again(wire);
  const Buffer near(again.a, 64), far(again.b, 64);
  const Sge out = near.sge(0, 64);
  REQUIRE(again.qa.post_send({.opcode = Opcode::write,
                              .sges = {&out, 1},
                              .remote_address = far.address(),
                              .rkey = far.region.rkey()}));
  CHECK(again.next(again.a).status == Status::success);
}
WEFT_ON_IBVERBS(own_address_goes,
                "removing and adding the address again does not break connections")

// Many events that are not taken neither block a call nor the closing of the device.
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
WEFT_ON_IBVERBS(unread_events, "many unread events block nothing")

// Connects two queue pairs of one device by its connection manager.
struct ByCm {
  explicit ByCm(Pair& p) : a(*CmChannel::create(p.a.device)), b(*CmChannel::create(p.b.device)) {
    const CmId listener = *a.create_id();
    REQUIRE(listener.listen(0));
    client = *b.create_id();
    const std::string at = to_string(p.a.device.attributes().gid);
    REQUIRE(client.resolve_address(at + ":" + std::to_string(listener.port())));
    REQUIRE(next(b).type == CmEventType::address_resolved);
    REQUIRE(client.resolve_route());
    REQUIRE(next(b).type == CmEventType::route_resolved);
    REQUIRE(client.connect(p.b.queue_pair()));
    const CmEvent asked = next(a);
    server = asked.id;
    REQUIRE(server.accept(p.a.queue_pair()));
    REQUIRE(next(b).type == CmEventType::established);
    REQUIRE(next(a).type == CmEventType::established);
  }
  static CmEvent next(const CmChannel& channel) {
    std::optional<CmEvent> event = channel.wait(Duration::from_s(20));
    REQUIRE(event);
    return std::move(*event);
  }
  CmChannel a, b;
  CmId client, server;
};

// Both kinds or a refusal that says so (siw has none).
void windows_or_a_refusal(Wire wire) {
  const Side side(device_string(wire));
  for (const WindowType type : {WindowType::one, WindowType::two}) {
    const Result<MemoryWindow> window = side.pd.memory_window(type);
    if (window) continue;
    CHECK(window.error().code == Code::not_supported);
    CHECK(window.error().message.find("has no memory windows") != std::string::npos);
  }
}
WEFT_ON_IBVERBS(windows_or_a_refusal, "memory windows are made, or there are none")

// The device goes (WEFT_TEST_REMOVAL is how) while it transfers. Nothing hangs: requests end, with
// success as long as the kernel waits for those who have it open, else with an error. (Of rxe the
// kernel waits, and sends no event until then.) Whatever the connection manager says is an end with
// its reason. When the program has ended, the device is gone: who runs this looks.
TEST_CASE("a device that is removed while it transfers @ibverbs", "[.removal]") {
  const char* const removal = std::getenv("WEFT_TEST_REMOVAL");
  REQUIRE(removal != nullptr);
  Pair p(Wire::ibverbs, {.walk = {.timeout = 10, .retry_count = 3}});
  ByCm cm(p);
  const Buffer near(p.a, 4096), far(p.b, 4096);
  const Sge out = near.sge(0, 4096);
  const SendRequest write{.opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()};
  uint64_t done = 0;
  const auto transfer = [&] {
    if (!p.qa.post_send(write)) return false;
    if (p.next(p.a).status != Status::success) return false;
    return ++done, true;
  };
  for (int i = 0; i < 100; ++i) REQUIRE(transfer());
  REQUIRE(std::system((std::string(removal) + " &").c_str()) == 0);
  const Deadline enough(Duration::from_s(2));
  bool works = true;
  while (works && !enough.passed()) works = transfer();
  std::printf("after the removal: %s after %llu WRITEs\n", works ? "it still works" : "an error",
              static_cast<unsigned long long>(done));
  CHECK(works == (std::string(removal).find("rdma") == 0));
  if (!works) {
    CHECK(p.qa.state() == QpState::err);
    // What is posted now ends at once, and what is asked of the device is refused or answered.
    REQUIRE(p.qa.post_send(write));
    CHECK(p.next(p.a).status == Status::flushed);
  }
  // The first side gets an event with a reason; it disconnects, which the other may see first. On
  // iWARP TCP may end before the device does, and that has no reason.
  size_t ends = 0, reasons = 0;
  for (const CmChannel& channel : {cm.a, cm.b})
    if (const std::optional<CmEvent> event = channel.next()) {
      CHECK(event->type == CmEventType::disconnected);
      ++ends;
      if (event->error) ++reasons;
    }
  CHECK((ends == 0 || reasons != 0 || !p.a.device.attributes().confirms));
  (void)p.a.device.counters();
  const Buffer more(p.a, 4096);
  CHECK(cm.client.disconnect());
}

}  // namespace
}  // namespace weft
