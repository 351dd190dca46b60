// SPDX-License-Identifier: BSD-3-Clause
// Errors of SRD through the public API: the status of the failing request; that other requests and
// the queue pair are not affected, on both sides; and that every request completes exactly once.
#include <functional>
#include <map>
#include <set>

#include "tests/conformance/srd_nodes.hpp"

namespace weft {
namespace {

using namespace test;

constexpr Opcode kSrdErrorsRemote[] = {Opcode::write, Opcode::read, Opcode::compare_swap,
                                       Opcode::fetch_add, Opcode::write_add};

uint32_t size_of(Opcode opcode) {
  return opcode == Opcode::compare_swap || opcode == Opcode::fetch_add ? 8 : 10'000;
}

// `count` completions of a, by their ids.
std::map<uint64_t, Status> outcomes(Two& t, size_t count) {
  std::map<uint64_t, Status> by_id;
  for (size_t i = 0; i < count; ++i) {
    const Completion c = t.wait(t.a);
    CHECK(by_id.emplace(c.id, c.status).second);
  }
  return by_id;
}

// Posts a request that must fail with `status`, between two that must not.
void require_error(Two& t, SendRequest bad, Status status) {
  const Sge word = t.a.memory.sge(900'000, 8);
  SendRequest before = t.request(Opcode::write, 1, {&word, 1}, 900'000);
  SendRequest behind = t.request(Opcode::write, 3, {&word, 1}, 900'008);
  bad.id = 2;
  bad.flags = SendFlags::none;  // errors complete unsignaled requests too
  const SendRequest list[] = {before, bad, behind};
  REQUIRE(t.a.qp.post_send(list));
  const std::map<uint64_t, Status> got = outcomes(t, 3);
  INFO("opcode " << int(bad.opcode) << ": " << name(got.at(2)));
  CHECK(got.at(1) == Status::success);
  CHECK(got.at(2) == status);
  CHECK(got.at(3) == Status::success);
  CHECK(t.a.qp.state() == QpState::rts);
  CHECK(t.b.qp.state() == QpState::rts);
  CHECK(t.b.side.got.empty());
  CHECK_FALSE(t.b.side.device.next_event());
}

// One operation of each kind on memory of b, changed by `spoil` so that b refuses it.
void srd_errors_require_refused(Two& t, Status status,
                                const std::function<void(SendRequest&)>& spoil) {
  for (const Opcode opcode : kSrdErrorsRemote) {
    const Sge local = t.a.memory.sge(0, size_of(opcode));
    SendRequest bad = t.request(opcode, 2, {&local, 1}, 4096);
    spoil(bad);
    require_error(t, bad, status);
  }
}

void remote_access(Wire wire) {
  Two t(wire);
  const uint64_t end = t.b.memory.address() + t.b.memory.size();
  for (int i = 0; i < 100; ++i) t.a.memory.at()[i] = std::byte{0xAB};
  srd_errors_require_refused(t, Status::remote_access_error,
                             [](SendRequest& r) { r.rkey.value ^= 0x10; });
  srd_errors_require_refused(t, Status::remote_access_error, [&](SendRequest& r) {
    r.remote_address = end - size_of(r.opcode) + 8;
  });
  srd_errors_require_refused(t, Status::remote_access_error,
                             [&](SendRequest& r) { r.remote_address = t.b.memory.address() - 8; });
  srd_errors_require_refused(t, Status::remote_access_error,
                             [](SendRequest& r) { r.remote_address = UINT64_MAX - 7; });
  const Buffer none(t.b.side.pd, 16'384, Access::local_write);
  srd_errors_require_refused(t, Status::remote_access_error, [&](SendRequest& r) {
    r.remote_address = none.address();
    r.rkey = none.region.rkey();
  });
  const ProtectionDomain domain = *t.b.side.device.protection_domain();
  const Buffer foreign(domain, 16'384, Access::all);
  srd_errors_require_refused(t, Status::remote_access_error, [&](SendRequest& r) {
    r.remote_address = foreign.address();
    r.rkey = foreign.region.rkey();
  });
  for (const Buffer* untouched : {&none, &foreign})
    for (const std::byte byte : untouched->bytes()) REQUIRE(byte == std::byte{0});
}
WEFT_ON_SRD_WIRES(remote_access, "SRD: an access that the peer does not allow fails alone")

void wrong_requests(Wire wire) {
  Two t(wire);
  srd_errors_require_refused(t, Status::remote_invalid_request, [](SendRequest& r) {
    r.remote_qpn.value ^= 1;
  });  // no such queue pair
  const Sge word = t.a.memory.sge(0, 8);
  for (const Opcode opcode : {Opcode::compare_swap, Opcode::fetch_add})
    require_error(t, t.request(opcode, 2, {&word, 1}, 4), Status::remote_invalid_request);
}
WEFT_ON_SRD_WIRES(wrong_requests, "SRD: a request that makes no sense to the peer fails alone")

void srd_errors_local_errors(Wire wire) {
  Two t(wire);
  const Sge bad{t.a.memory.at(), 8, LKey{t.a.memory.region.lkey().value + 1}};
  for (const Opcode opcode : {Opcode::write, Opcode::read, Opcode::fetch_add, Opcode::write_add})
    require_error(t, t.request(opcode, 2, {&bad, 1}, 0), Status::local_protection_error);
  const Buffer constant(t.a.side.pd, 64, Access::none);
  const Sge local = constant.sge(0, 64);
  require_error(t, t.request(Opcode::read, 2, {&local, 1}, 0), Status::local_protection_error);
  CHECK(t.finish(t.request(Opcode::write, 5, {&local, 1}, 0)).status == Status::success);
}
WEFT_ON_SRD_PORTS(srd_errors_local_errors, "SRD: a wrong local key fails at its own request")

void receives(Wire wire) {
  Two t(wire);
  const Sge out = t.a.memory.sge(0, 5000);
  t.b.expect(7, 0, 4999);
  t.b.expect(8, 8192, 5000);
  CHECK(t.finish(t.request(Opcode::send, 1, {&out, 1}, 0)).status ==
        Status::remote_invalid_request);
  // The short receive waits for a message that fits; the next message is no worse off.
  const Sge small = t.a.memory.sge(0, 10);
  REQUIRE(t.finish(t.request(Opcode::send, 2, {&small, 1}, 0)).status == Status::success);
  REQUIRE(t.finish(t.request(Opcode::send, 3, {&out, 1}, 0)).status == Status::success);
  std::set<uint64_t> got;
  for (int i = 0; i < 2; ++i) {
    const Completion c = t.wait(t.b);
    INFO(c.id << " " << name(c.status));
    CHECK(got.insert(c.id).second);
  }
}
WEFT_ON_SRD_WIRES(receives, "SRD: a message longer than its receive fails alone")

// More SENDs than receives: those without wait, each for itself, or give up after their retries.
void not_ready(Wire wire) {
  Two t(wire);
  const Sge out = t.a.memory.sge(0, 64);
  for (uint64_t i = 0; i < 4; ++i)
    REQUIRE(t.a.qp.post_send(t.request(Opcode::send, i, {&out, 1}, 0)));
  REQUIRE(t.a.qp.post_send(t.request(Opcode::write, 9, {&out, 1}, 0)));
  CHECK(t.wait(t.a).id == 9);  // it does not wait for them
  if (!lossy(wire)) CHECK(t.a.side.counter("rx_rnr_naks") > 0);
  for (uint64_t i = 0; i < 4; ++i) t.b.expect(i, 64 * i, 64);
  for (const auto& [id, status] : outcomes(t, 4)) CHECK(status == Status::success);
  for (int i = 0; i < 4; ++i) CHECK(t.wait(t.b).status == Status::success);
  QueuePairAttributes impatient;
  impatient.rnr_retry = uint8_t{2};
  REQUIRE(t.a.qp.modify(impatient));
  require_error(t, t.request(Opcode::send, 2, {&out, 1}, 0), Status::rnr_retry_exceeded);
}
WEFT_ON_SRD_WIRES(not_ready, "SRD: a SEND waits for its receive and holds up nothing else")

void srd_errors_exactly_once(Wire wire) {
  const uint64_t seed = test_seed("srd_errors_test");
  Random random(seed);
  Two t(wire);
  const Sge out = t.a.memory.sge(0, 3000), word = t.a.memory.sge(8192, 8);
  std::set<uint64_t> bad;
  constexpr uint64_t kRequests = 120;  // no more than the send queue holds
  for (uint64_t i = 0; i < kRequests; ++i) {
    const Opcode opcode = kSrdErrorsRemote[random.below(4)];
    SendRequest r = t.request(opcode, i, {size_of(opcode) == 8 ? &word : &out, 1}, 0);
    if (random.one_in(5)) bad.insert(i), r.rkey.value ^= 1;
    REQUIRE(t.a.qp.post_send(r));
  }
  const std::map<uint64_t, Status> got = outcomes(t, kRequests);
  for (const auto& [id, status] : got)
    CHECK(status == (bad.count(id) != 0 ? Status::remote_access_error : Status::success));
  for (int i = 0; i < 1000; ++i) t.a.side.poll();
  CHECK(t.a.side.got.empty());
}
WEFT_ON_SRD_WIRES(srd_errors_exactly_once,
                  "SRD: every request completes exactly once, with its own status")

// What becomes of requests to a peer that has gone.
std::set<Status> ask_who_is_gone(Wire wire) {
  const std::string spec = device_string(wire) + ",patience_ms=200";
  SrdNode a(spec);
  const Sge out = a.memory.sge(0, 64);
  QpNum number;
  AddressHandle gone;
  {
    const SrdNode b(spec);
    number = b.qp.number();
    gone = a.side.pd.address_handle({.destination = b.side.device.attributes().gid});
  }
  for (uint64_t i = 0; i < 3; ++i)
    REQUIRE(a.qp.post_send({.id = i, .sges = {&out, 1}, .to = &gone, .remote_qpn = number}));
  REQUIRE(pump_until({&a.side}, [&] { return a.side.got.size() == 3; }));
  CHECK(a.qp.state() == QpState::rts);
  std::set<Status> ends;
  for (const Completion& c : a.side.got) ends.insert(c.status);
  return ends;
}

// Another test's process may take the address that is free then, and answer there.
void srd_errors_peer_gone(Wire wire) {
  std::set<Status> ends;
  for (int i = 0; i < 5 && !ends.contains(Status::retry_exceeded); ++i)
    ends = ask_who_is_gone(wire);
  CHECK(ends == std::set{Status::retry_exceeded});
}
WEFT_ON_SRD_PORTS(srd_errors_peer_gone,
                  "SRD: requests to a silent peer end, the queue pair goes on")

void refused_at_post(Wire wire) {
  Two t(wire);
  const Sge out = t.a.memory.sge(0, 10);
  const SendRequest good = t.request(Opcode::send, 1, {&out, 1}, 0);
  const auto refuses = [&](const char* why, const std::function<void(SendRequest&)>& spoil) {
    SendRequest bad = good;
    spoil(bad);
    const PostStatus status = t.a.qp.post_send(bad);
    CHECK(status.code == Code::invalid_argument);
    INFO(status.reason);
    CHECK(std::string_view(status.reason).find(why) != std::string_view::npos);
  };
  refuses("destination", [](SendRequest& r) { r.to = nullptr; });
  refuses("invalidate", [](SendRequest& r) { r.opcode = Opcode::send_with_invalidate; });
  refuses("fence", [](SendRequest& r) { r.flags = SendFlags::fence; });
  refuses("ordered", [](SendRequest& r) {
    r.opcode = Opcode::write;
    r.flags = SendFlags::ordered;
  });
  refuses("whole elements", [](SendRequest& r) { r.opcode = Opcode::write_add; });
  const Result<QueuePair> rc =
      t.a.side.pd.queue_pair({.type = QpType::rc, .send_cq = t.a.side.cq, .recv_cq = t.a.side.cq});
  REQUIRE_FALSE(rc);
  CHECK(rc.error().code == Code::not_supported);
  CHECK(rc.error().message.find("roce device") != std::string::npos);
}
WEFT_ON_SRD_PORTS(refused_at_post, "SRD: what it does not have is said at post")

}  // namespace
}  // namespace weft
