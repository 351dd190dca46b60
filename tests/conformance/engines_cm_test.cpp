// SPDX-License-Identifier: BSD-3-Clause
// The connection manager of a device with several engines runs on engine 0: it connects queue pairs
// of all, and learns of first requests to them.
#include "tests/conformance/engines_node.hpp"
#include "weft/cm.hpp"

namespace weft {
namespace {

using namespace test;

// RTUs to a socket that is not read, all else to its engine.
int drop_rtus(const Device& device) {
  constexpr uint32_t kAttribute = 12 + 8 + 16, kRtu = 0x14;  // behind BTH and DETH
  return steer(
      device,
      {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kTopByteOfQpn),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3), BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kAttribute),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRtu, 4, 3), BPF_STMT(BPF_RET | BPF_K, 0),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 1), BPF_STMT(BPF_RET | BPF_K, 1),
       BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 2)});
}

// Two devices of two engines, a client of the connection manager and a server.
struct Connecting {
  EngineNode a{kTwo}, b{kTwo};
  CmChannel server = *CmChannel::create(a.device), client = *CmChannel::create(b.device);
  CmId listener = *server.create_id();

  static CmEvent expect(const CmChannel& channel, CmEventType type) {
    std::optional<CmEvent> event = channel.wait(Duration::from_s(20));
    REQUIRE(event);
    REQUIRE(event->type == type);
    return *event;
  }
  // Queue pair `mine` of b with `yours` of a; both ready, and the client has been told so. The ends
  // of the client and of the server.
  std::pair<CmId, CmId> connect(size_t mine, size_t yours) const {
    const CmId id = *client.create_id();
    REQUIRE(id.resolve_address(to_string(a.device.attributes().gid) + ":" +
                               std::to_string(listener.port())));
    expect(client, CmEventType::address_resolved);
    REQUIRE(id.resolve_route());
    expect(client, CmEventType::route_resolved);
    const CmParameters said{.access = Access::all};
    REQUIRE(id.connect(b.qps[mine], said));
    const CmId asked = expect(server, CmEventType::connect_request).id;
    REQUIRE(asked.accept(a.qps[yours], said));
    expect(client, CmEventType::established);
    return {id, asked};
  }
  void disconnect(const CmId& id) const {
    REQUIRE(id.disconnect());
    expect(server, CmEventType::disconnected);
    expect(client, CmEventType::disconnected);
  }
};

TEST_CASE("engines: the connection manager connects queue pairs of any") {
  const Connecting c;
  REQUIRE(c.listener.listen(0));
  for (size_t i = 0; i < 2; ++i) {
    const auto [id, asked] = c.connect(i, 1 - i);
    Connecting::expect(c.server, CmEventType::established);
    CHECK(c.b.write(i, c.a, 64) == Status::success);
    CHECK(c.a.write(1 - i, c.b, 64) == Status::success);
    c.disconnect(id);
  }
}

TEST_CASE("engines: a first request replaces a lost RTU on each (C-CM-106)") {
  const Connecting c;
  REQUIRE(c.listener.listen(0));
  const int lost = drop_rtus(c.a.device);
  for (size_t i = 0; i < 2; ++i) {
    INFO("engine " << i);
    const auto [id, asked] = c.connect(1 - i, i);
    CHECK_FALSE(c.server.next());  // it has no event
    CHECK(c.b.write(1 - i, c.a, 64) == Status::success);
    Connecting::expect(c.server, CmEventType::established);
    CHECK(c.a.write(i, c.b, 64) == Status::success);
    c.disconnect(id);
  }
  char rtu[1024];
  CHECK(::recv(lost, rtu, sizeof rtu, MSG_DONTWAIT) > 0);
  ::close(lost);
}

}  // namespace
}  // namespace weft
