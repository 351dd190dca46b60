// SPDX-License-Identifier: BSD-3-Clause
// A process of another user on this host that knows everything of a connection: addresses, queue
// pair numbers, PSNs, keys. With a UDP socket it sends what the peers would send next, from their
// addresses. Without the check of senders that writes memory and ends the connection.
// //= threat:A31
#include "lib/wire/forge.hpp"
#include "tests/conformance/fixture.hpp"
#include "tests/support/other_user.hpp"

namespace weft::test {
namespace {

constexpr uint16_t kForgersPort = 0xC654;
constexpr uint8_t kRemoteAccessNak = 0x62;
constexpr uint32_t kNaks = 256;
constexpr const char* kRefused = "udp_rx_foreign_sender";

struct Ends {
  explicit Ends(const std::string& spec) : a(spec), b(spec) {
    connect(qa, qb, {.rnr_retry = 7, .min_rnr_timer = 14});  // 1 ms
  }
  Side a, b;
  QueuePair qa = a.queue_pair(), qb = b.queue_pair();
};

struct Forger {
  int socket = -1;
  Gid as, to;

  bool send(const wire::Forgery& forgery) const {
    const wire::OuterHeader outer{.source = &as, .destination = &to, .source_port = kForgersPort};
    return send_from(socket, as, to, wire::forge(outer, forgery));
  }
};

int forger_socket() { return bound_socket(Gid::from_ipv4(127, 201, 3, 4), kForgersPort); }

// A WRITE to `far`, as a would send it to b.
bool write_forged(const Ends& ends, const Buffer& far) {
  const Gid a = ends.a.device.attributes().gid, b = ends.b.device.attributes().gid;
  const std::vector<std::byte> payload(64, std::byte{0xEE});
  const Psn expected = *ends.qb.query().rq_psn;
  return as_other_user([&] {
           const Forger forger{forger_socket(), a, b};
           return forger.send({.bth = {.opcode = wire::kRcWriteOnly,
                                       .ack_request = true,
                                       .dest = ends.qb.number(),
                                       .psn = expected},
                               .address = far.address(),
                               .rkey = far.region.rkey(),
                               .length = 64,
                               .payload = payload})
                      ? 0
                      : 1;
         }) == 0;
}

// A fatal NAK for the request of a that is outstanding, as b would send it, for as many PSNs as
// kNaks says.
bool end_forged(const Ends& ends, Psn first) {
  const Gid a = ends.a.device.attributes().gid, b = ends.b.device.attributes().gid;
  return as_other_user([&] {
           const Forger forger{forger_socket(), b, a};
           for (uint32_t i = 0; i < kNaks; ++i)
             if (!forger.send({.bth = {.opcode = wire::kRcAcknowledge,
                                       .dest = ends.qa.number(),
                                       .psn = Psn{(first.value + i) & 0xFFFFFF}},
                               .syndrome = kRemoteAccessNak}))
               return 1;
           return 0;
         }) == 0;
}

void forge_both(bool checked) {
  if (geteuid() != 0) WEFT_SKIP("local forger", "only root can become another user");
  Ends ends(checked ? "roce+udp:lo,udp.check_senders=1" : "roce+udp:lo");
  Buffer near(ends.a, 4096), far(ends.b, 4096);
  const std::vector<std::byte> before(far.bytes().begin(), far.bytes().end());
  REQUIRE(write_forged(ends, far));
  REQUIRE(pump_until({&ends.a, &ends.b}, [&] {
    return checked ? ends.b.counter(kRefused) == 1 : !equal(far.bytes(), before);
  }));
  CHECK(equal(far.bytes(), before) == checked);
  if (!checked) return;  // the forged request has taken a PSN: a's own would be a duplicate

  // Outstanding until b posts a receive.
  const Psn psn = *ends.qa.query().sq_psn;
  const Sge out = near.sge(0, 64), in = far.sge(64, 64);
  REQUIRE(ends.qa.post_send({.opcode = Opcode::send, .sges = {&out, 1}}));
  REQUIRE(end_forged(ends, psn));
  REQUIRE(pump_until({&ends.a, &ends.b}, [&] { return ends.a.counter(kRefused) == kNaks; }));
  CHECK(ends.qa.state() == QpState::rts);
  REQUIRE(ends.qb.post_recv({.id = 1, .sges = {&in, 1}}));
  REQUIRE(pump_until({&ends.a, &ends.b}, [&] { return !ends.a.got.empty(); }));
  CHECK(ends.a.got[0].status == Status::success);
  CHECK(ends.qb.state() == QpState::rts);
}

TEST_CASE("a process of another user neither writes nor ends a connection, threat:A31") {
  forge_both(true);
}

TEST_CASE("without the check of senders it writes: the packet is right") { forge_both(false); }

TEST_CASE("without the check of senders it ends the connection: the packets are right") {
  if (geteuid() != 0) WEFT_SKIP("local forger", "only root can become another user");
  Ends ends("roce+udp:lo");
  Buffer near(ends.a, 4096);
  const Psn psn = *ends.qa.query().sq_psn;
  const Sge out = near.sge(0, 64);
  REQUIRE(ends.qa.post_send({.opcode = Opcode::send, .sges = {&out, 1}}));
  REQUIRE(end_forged(ends, psn));
  REQUIRE(pump_until({&ends.a, &ends.b}, [&] { return !ends.a.got.empty(); }));
  CHECK(ends.a.got[0].status == Status::remote_access_error);
  CHECK(ends.qa.state() == QpState::err);
}

}  // namespace
}  // namespace weft::test
