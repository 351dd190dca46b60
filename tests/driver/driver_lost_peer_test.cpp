// SPDX-License-Identifier: BSD-3-Clause
// A process that is killed is known to be gone by a sign: the requests to it end though all
// time-outs are longer than this test. One that is stopped on this host is waited for, though all
// time-outs are shorter.
// link: test_conformance
#include "lib/transport/lost_peers.hpp"
#include "tests/conformance/fixture.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/peer_process.hpp"
#include "tests/conformance/steps.hpp"

namespace weft::test {
namespace {

using transport::PeerSign;

constexpr uint8_t kEndless = 22, kShort = 13;  // times eight: more than two minutes, 270 ms

// A connection of this process to a server in another one.
class LostLink {
 public:
  LostLink(const std::string& device, const PeerProcess& server, uint8_t timeout)
      : side(device), memory_(side, 4096), connector_(side.device) {
    Result<Met> met =
        connector_.meet("127.0.0.1:" + std::to_string(server.ports[0]), side.queue_pair(), timeout);
    REQUIRE(met);
    met_ = std::move(*met);
    REQUIRE(met_.peer_data.size() >= sizeof advertised_);
    std::memcpy(&advertised_, met_.peer_data.data(), sizeof advertised_);
  }
  void post() const {
    const Sge sge = memory_.sge(0, 8);
    REQUIRE(met_.qp.post_send({.opcode = Opcode::write,
                               .sges = {&sge, 1},
                               .remote_address = advertised_.address,
                               .rkey = RKey{advertised_.rkey}}));
  }
  Completion finish() {
    REQUIRE(pump_until({&side}, [&] { return !side.got.empty(); }));
    const Completion c = side.got.front();
    side.got.clear();
    return c;
  }

  Side side;

 private:
  Buffer memory_;
  Connector connector_;
  Met met_;
  struct {
    uint64_t address;
    uint32_t rkey;
  } advertised_{};
};

std::string endless(Wire wire) {
  return device_string(wire) + (is_srd(wire) ? ",patience_ms=120000" : "");
}

void killed(Wire wire) {
  const std::string device = endless(wire);
  // With a request in flight, with one that is posted later, with the application asleep.
  for (int when = 0; when < 3; ++when) {
    INFO(when);
    PeerProcess server(device, 1);
    LostLink link(device, server, kEndless);
    for (int i = 0; i < 20; ++i) {
      link.post();
      REQUIRE(link.finish().status == Status::success);
    }
    server.pause();  // it answers nothing any more
    if (when != 1) link.post();
    server.kill();
    if (when == 1) {
      for (int i = 0; i < 2000; ++i) link.side.poll();
      CHECK(link.side.got.empty());
      link.post();
    }
    Completion c;
    if (when == 2)
      REQUIRE(link.side.cq.wait({&c, 1}, Duration::from_s(30)) == 1);
    else
      c = link.finish();
    CHECK(c.status == Status::retry_exceeded);
    const PeerSign sign = transport::sign_of(c.vendor_error);
    if (name(wire).ends_with("udp"))
      CHECK(sign == PeerSign::port_unreachable);
    else  // its sockets may be seen to close before its end is
      CHECK((sign == PeerSign::process_ended || sign == PeerSign::device_closed));
  }
}
WEFT_ON_WIRE(killed, "a process that is killed is known to be gone by a sign", shm)
WEFT_ON_WIRE(killed, "a process that is killed is known to be gone by a sign", udp)
WEFT_ON_WIRE(killed, "a process that is killed is known to be gone by a sign", auto)
WEFT_ON_WIRE(killed, "a process that is killed is known to be gone by a sign", srd_shm)
WEFT_ON_WIRE(killed, "a process that is killed is known to be gone by a sign", srd_udp)
WEFT_ON_WIRE(killed, "a process that is killed is known to be gone by a sign", srd_auto)

void stopped(Wire wire) {
  const std::string device = device_string(wire) + (is_srd(wire) ? ",patience_ms=100" : "");
  PeerProcess server(device, 1);
  LostLink link(device, server, kShort);
  for (int round = 0; round < 2; ++round) {
    link.post();
    REQUIRE(link.finish().status == Status::success);
    server.pause();
    link.post();
    const Deadline three_seconds(Duration::from_s(3));
    while (!three_seconds.passed()) link.side.poll();
    CHECK(link.side.got.empty());
    server.resume();
    CHECK(link.finish().status == Status::success);
  }
}
WEFT_ON_WIRE(stopped, "a process that is stopped on this host costs only time, threat:A27", shm)
WEFT_ON_WIRE(stopped, "a process that is stopped on this host costs only time, threat:A27", auto)
WEFT_ON_WIRE(stopped, "a process that is stopped on this host costs only time, threat:A27", srd_shm)
WEFT_ON_WIRE(stopped, "a process that is stopped on this host costs only time, threat:A27",
             srd_auto)

}  // namespace
}  // namespace weft::test
