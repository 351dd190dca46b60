// SPDX-License-Identifier: BSD-3-Clause
// Which way queue pairs of a device of the port auto go: in memory to devices of auto of our user
// on this host, by udp to all others; and that data is right on each way and when the peer ends.
// link: test_conformance
#include <poll.h>
#include <sys/un.h>

#include <cstdio>

#include "providers/port/shm/rendezvous.hpp"
#include "tests/conformance/srd_nodes.hpp"
#include "tests/support/other_user.hpp"

namespace weft::test {
namespace {

uint64_t in_memory(const Side& side) {
  return side.counts("shm_links_out") ? side.counter("shm_links_out") : 0;
}
uint64_t by_network(const Side& side) { return side.counter("udp_tx_frames"); }

// WRITEs, READs and SENDs of sizes with and without pad, data checked.
void exchange(Side& a, const QueuePair& qa, Side& b, const QueuePair& qb) {
  const Buffer from(a, 1 << 20), to(b, 1 << 20);
  for (const size_t size : {1u, 7u, 8u, 63u, 1000u, 4096u, 4099u, 100'003u, 1u << 20}) {
    INFO(size << " bytes");
    for (const Opcode opcode : {Opcode::write, Opcode::read, Opcode::send}) {
      fill(from.bytes(), size * 3 + static_cast<size_t>(opcode));
      fill(to.bytes(), size * 5 + static_cast<size_t>(opcode));
      const Sge local = from.sge(0, size), remote = to.sge(0, size);
      if (opcode == Opcode::send) REQUIRE(qb.post_recv({.sges = {&remote, 1}}));
      REQUIRE(qa.post_send({.opcode = opcode,
                            .sges = {&local, 1},
                            .remote_address = to.address(),
                            .rkey = to.region.rkey()}));
      a.got.clear();
      b.got.clear();
      const bool receives = opcode == Opcode::send;
      REQUIRE(pump_until({&a, &b}, [&] { return !a.got.empty() && !(receives && b.got.empty()); }));
      REQUIRE(a.got[0].status == Status::success);
      CHECK(equal(from.bytes(0, size), to.bytes(0, size)));
    }
  }
}

void exchange_by(const std::string& one, const std::string& other, bool memory) {
  INFO(one << " and " << other);
  Side a(one), b(other);
  const QueuePair qa = a.queue_pair(), qb = b.queue_pair();
  connect(qa, qb);
  const uint64_t before = by_network(a);
  exchange(a, qa, b, qb);
  CHECK((in_memory(a) != 0) == memory);
  CHECK((by_network(a) == before) == memory);
}

}  // namespace

TEST_CASE("auto: queue pairs of one user's devices on this host go through memory") {
  exchange_by("roce+auto:lo", "roce+auto:lo", true);
  exchange_by("roce+auto:lo,udp.shared=1", "roce+auto:lo,udp.shared=1", true);
  exchange_by("roce+auto:lo,udp.shared=1", "roce+auto:lo", true);
}

TEST_CASE("auto: devices of both protocols at one address reach those of their own") {
  const std::string at = "127.91." + std::to_string(::getpid() / 200 % 200) + "." +
                         std::to_string(1 + ::getpid() % 200) + ",udp.shared=0";
  const Side first("roce+auto:" + at), second("srd+auto:" + at);
  CHECK(first.device.attributes().gid == second.device.attributes().gid);
  CHECK(first.counts("shm_links_out"));
  CHECK(second.counts("shm_links_out"));
}

TEST_CASE("auto: two queue pairs of one device go through memory") {
  Side side("roce+auto:lo");
  const QueuePair qa = side.queue_pair(), qb = side.queue_pair();
  connect(qa, qb);
  const uint64_t before = by_network(side);
  const Buffer memory(side, 8192);
  fill(memory.bytes(), 9);
  const Sge local = memory.sge(0, 4096);
  REQUIRE(qa.post_send({.opcode = Opcode::write,
                        .sges = {&local, 1},
                        .remote_address = memory.address(4096),
                        .rkey = memory.region.rkey()}));
  REQUIRE(pump_until({&side}, [&] { return !side.got.empty(); }));
  CHECK(side.got[0].status == Status::success);
  CHECK(equal(memory.bytes(0, 4096), memory.bytes(4096, 4096)));
  CHECK(by_network(side) == before);
}

TEST_CASE("auto: devices of udp, and packets that middleware has to see, go by udp") {
  exchange_by("roce+auto:lo", "roce+udp:lo", false);
  exchange_by("roce+udp:lo", "roce+auto:lo", false);
  exchange_by("roce+auto:lo,auto.memory=0", "roce+auto:lo", false);
  exchange_by("roce+auto:lo,fault.loss=0.001,fault.seed=7", "roce+auto:lo", false);
}

TEST_CASE("auto: datagrams go by udp") {
  Side a("roce+auto:lo"), b("roce+auto:lo");
  const QueuePair qa = a.queue_pair({.type = QpType::ud}), qb = b.queue_pair({.type = QpType::ud});
  for (const QueuePair* qp : {&qa, &qb}) {
    REQUIRE(qp->modify(
        {.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}, .qkey = 0x1234}));
    REQUIRE(qp->modify({.state = QpState::rtr}));
    REQUIRE(qp->modify({.state = QpState::rts, .sq_psn = Psn{1}}));
  }
  const Buffer from(a, 4096), to(b, 4096);
  fill(from.bytes(), 4);
  const Sge local = from.sge(0, 100), place = to.sge(0, 140);
  REQUIRE(qb.post_recv({.sges = {&place, 1}}));
  const AddressHandle handle = a.pd.address_handle({.destination = b.device.attributes().gid});
  REQUIRE(qa.post_send({.opcode = Opcode::send,
                        .sges = {&local, 1},
                        .to = &handle,
                        .remote_qpn = qb.number(),
                        .remote_qkey = 0x1234}));
  REQUIRE(pump_until({&a, &b}, [&] { return !b.got.empty(); }));
  CHECK(equal(from.bytes(0, 100), to.bytes(40, 100)));
  CHECK(in_memory(a) == 0);
}

TEST_CASE("auto: a device of another user is reached by udp, threat:A31") {
  if (::geteuid() != 0) WEFT_SKIP("auto port", "changing the user needs root");
  Side side("roce+auto:lo");
  const QueuePair qp = side.queue_pair();
  int tell[2], done[2];
  REQUIRE(::pipe(tell) == 0);
  REQUIRE(::pipe(done) == 0);
  struct Name {
    Gid gid;
    QpNum number;
  };
  const Name ours{side.device.attributes().gid, qp.number()};
  const pid_t child = start_as_other_user([&] {
    const Side theirs("roce+auto:lo");
    const QueuePair other = theirs.queue_pair();
    const Name name{theirs.device.attributes().gid, other.number()};
    if (!other.modify(to_init()) || ::write(tell[1], &name, sizeof name) != sizeof name) return 1;
    QueuePairAttributes rtr = to_rtr({}, other, Psn{0x123456});
    rtr.path = AddressVector{.destination = ours.gid};
    rtr.dest_qpn = ours.number;
    if (!other.modify(rtr)) return 2;
    const bool memory = theirs.counter("shm_links_out") != 0;
    char byte;
    ::close(done[1]);
    (void)!::read(done[0], &byte, 1);
    return memory ? 3 : 0;
  });
  Name theirs{};
  REQUIRE(::read(tell[0], &theirs, sizeof theirs) == sizeof theirs);
  REQUIRE(qp.modify(to_init()));
  QueuePairAttributes rtr = to_rtr({}, qp, Psn{0x654321});
  rtr.path = AddressVector{.destination = theirs.gid};
  rtr.dest_qpn = theirs.number;
  REQUIRE(qp.modify(rtr));
  CHECK(in_memory(side) == 0);
  ::close(done[1]);
  CHECK(exit_status_of(child) == 0);
}

// Names of abstract sockets belong to no user: another one may listen at that of a device of ours,
// before we open it (we do without), and where a peer of ours would be (we hang up and go by udp).
TEST_CASE("auto: who listens at our device's name as another user gets nothing, threat:A31") {
  if (::geteuid() != 0) WEFT_SKIP("auto port", "changing the user needs root");
  const auto high = static_cast<uint8_t>(::getpid() / 200 % 200);
  const auto low = static_cast<uint8_t>(1 + ::getpid() % 200);
  const Gid address = Gid::from_ipv4(127, 93, high, low);
  const Gid name = port::shm::name_beside(address, 0);
  uint64_t id = 0;
  for (size_t i = 8; i < 16; ++i) id = id << 8 | name.bytes[i];
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const int length =
      std::snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft-shm/%u/udp4791/h%016llx",
                    ::geteuid(), static_cast<unsigned long long>(id));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  int ready[2], done[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(done) == 0);
  // Ends with 0 if it was connected to, and neither bytes nor descriptors came.
  const pid_t child = start_as_other_user([&] {
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&at), size) != 0 || ::listen(fd, 64) != 0)
      return 1;
    if (::write(ready[1], "!", 1) != 1) return 2;
    ::close(done[1]);
    char byte;
    (void)!::read(done[0], &byte, 1);
    int connections = 0;
    for (;; ++connections) {
      const int peer = ::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK);
      pollfd more{fd, POLLIN, 0};
      char bytes[64];
      if (::recv(peer, bytes, sizeof bytes, 0) > 0) return 3;
      if (::poll(&more, 1, 0) == 0) break;
    }
    return 0;
  });
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  {
    Side ours("roce+auto:127.93." + std::to_string(high) + "." + std::to_string(low) +
              ",udp.shared=0");
    CHECK(ours.device.attributes().gid == address);
    CHECK_FALSE(ours.counts("shm_links_out"));
    Side other("roce+auto:lo");
    const QueuePair qa = ours.queue_pair(), qb = other.queue_pair();
    connect(qa, qb);
    CHECK(other.counter("shm_rx_wrong_user") >= 1);
    exchange(other, qb, ours, qa);
    CHECK(in_memory(other) == 0);
  }
  ::close(done[1]);
  CHECK(exit_status_of(child) == 0);
}

TEST_CASE("auto: requests to a peer that has ended fail, and new peers are reached") {
  Side a("roce+auto:lo");
  Walk walk;
  walk.timeout = 8;
  walk.retry_count = 2;
  {
    Side b("roce+auto:lo");
    const QueuePair qa = a.queue_pair();
    const Buffer from(a, 4096);
    {
      const QueuePair qb = b.queue_pair();
      connect(qa, qb, walk);
      exchange(a, qa, b, qb);
    }
    const Sge local = from.sge(0, 8);
    REQUIRE(qa.post_send({.opcode = Opcode::send, .sges = {&local, 1}}));
    a.got.clear();
    REQUIRE(pump_until({&a}, [&] { return !a.got.empty(); }));
    CHECK(a.got[0].status != Status::success);
  }
  Side c("roce+auto:lo");
  const QueuePair qa = a.queue_pair(), qc = c.queue_pair();
  connect(qa, qc);
  exchange(a, qa, c, qc);
}

TEST_CASE("auto: messages of srd go through memory, and by udp to who has none") {
  for (const bool memory : {true, false}) {
    Two t("srd+auto:lo", memory ? "srd+auto:lo" : "srd+udp:lo");
    for (const size_t size : {1u, 8u, 4099u, 1u << 20}) {
      fill(t.a.memory.bytes(), size);
      const Sge local = t.a.memory.sge(0, size);
      REQUIRE(t.finish(t.request(Opcode::write, size, {&local, 1}, 0)).status == Status::success);
      CHECK(equal(t.a.memory.bytes(0, size), t.b.memory.bytes(0, size)));
    }
    CHECK((by_network(t.a.side) == 0) == memory);
  }
}

}  // namespace weft::test
