// SPDX-License-Identifier: BSD-3-Clause
// Errors through the public API: status, event and state of each, and that every posted request
// completes exactly once.
#include <cstring>
#include <functional>
#include <set>

#include "tests/conformance/fixture.hpp"

namespace weft {
namespace {

using namespace test;

SendRequest request_of(Opcode opcode, const Sge& local, uint64_t address, RKey key,
                       uint64_t id = 0) {
  return {.id = id, .opcode = opcode, .sges = {&local, 1}, .remote_address = address, .rkey = key};
}

// After a fatal error: `count` more completions of `side`, all flushed, ids from `first_id` on, and
// the queue pair is in ERR.
void require_flushed(Pair& p, Side& side, const QueuePair& qp, uint64_t first_id, size_t count) {
  for (const Completion& c : p.wait(side, count)) {
    INFO("status " << name(c.status));
    REQUIRE(c.status == Status::flushed);
    REQUIRE(c.id == first_id++);
  }
  REQUIRE(qp.state() == QpState::err);
}

// A transport without confirmation (iWARP) reports a refusal by ending the connection. Both sides
// go to ERR, no request completes twice, and later requests are flushed. Returns the ids of `a`
// that completed.
std::set<uint64_t> require_end(Pair& p) {
  REQUIRE(pump_until({&p.a, &p.b},
                     [&] { return p.qa.state() == QpState::err && p.qb.state() == QpState::err; }));
  p.poll_for(Duration::from_ms(5));
  std::set<uint64_t> ids;
  for (const Completion& c : p.a.got) {
    INFO("request " << c.id << ": " << name(c.status));
    CHECK(ids.insert(c.id).second);
    CHECK(c.status != Status::success);
  }
  p.a.got.clear();
  REQUIRE(p.qa.post_send({.id = 99}));
  const Completion c = p.next(p.a);
  CHECK((c.id == 99 && c.status == Status::flushed));
  return ids;
}

bool confirms(const Pair& p) { return p.a.device.attributes().confirms; }
// The status of a wrong lkey, which differs on the kernel's devices.
bool by_kernel(const Side& side) { return is_rxe(side) || is_siw(side); }
bool lacks(const Pair& p, Opcode opcode) {
  const bool atomic = opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
  return atomic && !p.a.device.attributes().has_atomics;
}

// Posts a request that the peer must refuse, with two unsignaled ones behind it.
void require_refused(
    Wire wire, Opcode opcode, Status status, EventType event,
    const std::function<SendRequest(const Pair&, const Buffer&, const Sge&)>& make) {
  Pair p(wire);
  const Buffer near(p.a, 4096), far(p.b, 4096);
  if (lacks(p, opcode)) return;
  const Sge local = near.sge(0, opcode == Opcode::write || opcode == Opcode::read ? 4096 : 8);
  fill(near.bytes(), 1);
  p.poll_for(Duration::from_ms(1));
  while (p.b.device.next_event()) {
  }
  for (uint64_t i = 0; i < 3; ++i) REQUIRE(p.qb.post_recv({.id = 50 + i}));
  SendRequest request = make(p, far, local);
  request.id = 1;
  request.flags = SendFlags::none;  //= roce:C-STATE-63
  const Sge word = near.sge(0, 8);
  SendRequest later = request_of(Opcode::write, word, far.address(), far.region.rkey(), 2);
  later.flags = SendFlags::none;
  SendRequest latest = later;
  latest.id = 3;
  const SendRequest list[] = {request, later, latest};
  REQUIRE(p.qa.post_send(list));
  if (!confirms(p)) {
    const bool told = require_end(p).count(1) != 0;
    if (opcode == Opcode::read) {
      CHECK(told);  // later WRITEs do not wait for its response
    } else {
      CHECK(far.word(0) == 0);  // no later request is executed
    }
    return require_flushed(p, p.b, p.qb, 50, 3);
  }
  const Completion c = p.next(p.a);
  INFO("opcode " << int(opcode) << ": " << name(c.status));
  CHECK(c.status == status);
  CHECK(c.id == 1);
  if (!is_rxe(p.a)) CHECK(c.vendor_error != 0);  // the syndrome
  require_flushed(p, p.a, p.qa, 2, 2);
  require_flushed(p, p.b, p.qb, 50, 3);
  if (!is_rxe(p.b)) CHECK(saw_event(p.b.device, event));
  p.poll_for(Duration::from_ms(5));
  CHECK(p.a.got.empty());
  CHECK(p.b.got.empty());
}

constexpr Opcode kRemote[] = {Opcode::write, Opcode::read, Opcode::compare_swap, Opcode::fetch_add};

void bad_key(Wire wire) {
  for (const Opcode opcode : kRemote) {
    require_refused(wire, opcode, Status::remote_access_error, EventType::qp_access_error,
                    [&](const Pair&, const Buffer& far, const Sge& local) {
                      const RKey wrong{far.region.rkey().value ^ 0x10};
                      return request_of(opcode, local, far.address(), wrong);
                    });
  }
}
WEFT_ON_EACH_PORT(bad_key, "an unknown key is refused (C-NAK-39 C-NAK-43 C-NAK-45 C-STATE-62)")

void out_of_bounds(Wire wire) {
  for (const Opcode opcode : kRemote) {
    for (const int64_t shift : {int64_t{-8}, int64_t{4096}, INT64_MIN / 2}) {
      require_refused(wire, opcode, Status::remote_access_error, EventType::qp_access_error,
                      [&](const Pair&, const Buffer& far, const Sge& local) {
                        const uint64_t address = far.address() + static_cast<uint64_t>(shift);
                        return request_of(opcode, local, address, far.region.rkey());
                      });
    }
  }
  require_refused(wire, Opcode::write, Status::remote_access_error, EventType::qp_access_error,
                  [&](const Pair&, const Buffer& far, const Sge& local) {
                    return request_of(Opcode::write, local, far.address(1), far.region.rkey());
                  });  // the last byte is one too far
}
WEFT_ON_EACH_PORT(out_of_bounds, "access outside the region is refused (C-NAK-39)")

void no_permission(Wire wire) {
  const Access rights[] = {Access::local_write | Access::remote_read | Access::remote_atomic,
                           Access::local_write | Access::remote_write | Access::remote_atomic,
                           Access::local_write | Access::remote_write | Access::remote_read,
                           Access::local_write | Access::remote_write | Access::remote_read};
  for (size_t i = 0; i < 4; ++i) {
    std::unique_ptr<Buffer> limited;
    require_refused(wire, kRemote[i], Status::remote_access_error, EventType::qp_access_error,
                    [&](const Pair& p, const Buffer& far, const Sge& local) {
                      if (is_siw(p.b) && kRemote[i] == Opcode::read)  // siw permits every READ
                        return request_of(kRemote[i], local, far.address(), RKey{1});
                      limited = std::make_unique<Buffer>(p.b.pd, 4096, rights[i]);
                      return request_of(kRemote[i], local, limited->address(),
                                        limited->region.rkey());
                    });
  }
}
WEFT_ON_EACH_PORT(no_permission, "access that the region does not permit is refused (C-NAK-39)")

void other_domain(Wire wire) {
  for (const Opcode opcode : kRemote) {
    std::unique_ptr<Buffer> foreign;
    require_refused(wire, opcode, Status::remote_access_error, EventType::qp_access_error,
                    [&](const Pair& p, const Buffer&, const Sge& local) {
                      const ProtectionDomain other = *p.b.device.protection_domain();
                      foreign = std::make_unique<Buffer>(other, 4096, Access::all);
                      return request_of(opcode, local, foreign->address(), foreign->region.rkey());
                    });
  }
}
WEFT_ON_EACH_PORT(other_domain, "a region of another protection domain is refused (C-NAK-39)")

void queue_pair_rights(Wire wire) {
  const Access rights[] = {
      Access::remote_read | Access::remote_atomic, Access::remote_write | Access::remote_atomic,
      Access::remote_write | Access::remote_read, Access::remote_write | Access::remote_read};
  for (size_t i = 0; i < 4; ++i) {
    Pair p(wire, {.walk = {.access = rights[i]}});
    const Buffer near(p.a, 64), far(p.b, 64);
    const Sge local = near.sge(0, 8);
    if (lacks(p, kRemote[i]) || is_siw(p.a)) continue;  // siw asks the region only
    REQUIRE(p.qa.post_send(request_of(kRemote[i], local, far.address(), far.region.rkey())));
    CHECK(p.next(p.a).status == Status::remote_invalid_request);
  }
}
WEFT_ON_EACH_PORT(queue_pair_rights,
                  "access that the queue pair does not permit is refused (C-NAK-38)")

void misaligned(Wire wire) {
  if (is_rxe(Side(device_string(wire)))) return;  // rxe refuses such a request at post
  for (const Opcode opcode : {Opcode::compare_swap, Opcode::fetch_add}) {
    require_refused(wire, opcode, Status::remote_invalid_request, EventType::qp_request_error,
                    [&](const Pair&, const Buffer& far, const Sge& local) {
                      return request_of(opcode, local, far.address(4), far.region.rkey());
                    });
  }
}
WEFT_ON_EACH_PORT(misaligned, "an atomic across an 8-byte boundary is refused (C-NAK-38 C-OPS-75)")

void local_errors(Wire wire) {
  for (const Opcode opcode : {Opcode::send, Opcode::write, Opcode::read, Opcode::fetch_add}) {
    Pair p(wire);
    if (lacks(p, opcode)) continue;
    const Buffer near(p.a, 64), far(p.b, 64);
    const Sge good = near.sge(0, 8);
    const Sge bad{near.at(), 8, LKey{near.region.lkey().value + 1}};
    REQUIRE(p.qb.post_recv({.id = 9}));
    const SendRequest list[] = {
        request_of(Opcode::write, good, far.address(), far.region.rkey(), 1),
        request_of(opcode, bad, far.address(), far.region.rkey(), 2),
        request_of(Opcode::write, good, far.address(), far.region.rkey(), 3)};
    REQUIRE(p.qa.post_send(list));
    CHECK(p.next(p.a).status == Status::success);  // earlier requests succeed
    const bool late =
        is_siw(p.a) && opcode == Opcode::read;  // siw checks the key when the response arrives
    if (late) CHECK(p.next(p.a).id == 3);
    const Completion c = p.next(p.a);
    CHECK(c.id == 2);
    const bool sends = opcode == Opcode::send || opcode == Opcode::write;
    CHECK(c.status == (by_kernel(p.a) && sends ? Status::local_qp_operation_error
                                               : Status::local_protection_error));
    require_flushed(p, p.a, p.qa, 3, late ? 0 : 1);
  }
}
WEFT_ON_EACH_PORT(local_errors, "a wrong local key fails at its own request (C-STATE-62)")

void read_only_target(Wire wire) {
  Pair p(wire);
  const Buffer far(p.b, 64), constant(p.a.pd, 64, Access::none);
  const Sge local = constant.sge(0, 64);
  REQUIRE(p.qa.post_send(request_of(Opcode::write, local, far.address(), far.region.rkey(), 1)));
  CHECK(p.next(p.a).status == Status::success);  // reading it is fine
  REQUIRE(p.qa.post_send(request_of(Opcode::read, local, far.address(), far.region.rkey(), 2)));
  CHECK(p.next(p.a).status == Status::local_protection_error);
}
WEFT_ON_EACH_PORT(read_only_target, "a READ into memory without local_write fails locally")

void receive_too_small(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 8192), far(p.b, 8192);
  const Sge out = near.sge(0, 5000), small = far.sge(0, 4999);
  REQUIRE(p.qb.post_recv({.id = 7, .sges = {&small, 1}}));
  REQUIRE(p.qb.post_recv({.id = 8}));
  REQUIRE(p.qa.post_send({.id = 1, .sges = {&out, 1}}));
  if (!confirms(p)) {
    CHECK(p.next(p.a).status == Status::success);
    const Completion short_one = p.next(p.b);
    CHECK((short_one.id == 7 && short_one.status == Status::local_length_error));
    require_flushed(p, p.b, p.qb, 8, 1);
    return void(require_end(p));
  }
  if (is_rxe(p.a)) {  // rxe reports nothing at the receiver
    CHECK(p.next(p.a).status == Status::remote_operation_error);
    return;
  }
  CHECK(p.next(p.a).status == Status::remote_invalid_request);
  const Completion c = p.next(p.b);
  CHECK(c.id == 7);
  CHECK(c.status == Status::local_length_error);
  require_flushed(p, p.b, p.qb, 8, 1);
}
WEFT_ON_EACH_PORT(receive_too_small, "a receive buffer too small fails on both sides (C-OPS-82)")

void receive_with_bad_key(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 64), bad{far.at(), 64, LKey{1}};
  REQUIRE(p.qb.post_recv({.id = 7, .sges = {&bad, 1}}));
  REQUIRE(p.qa.post_send({.id = 1, .sges = {&out, 1}}));
  CHECK(p.next(p.a).status == (confirms(p) ? Status::remote_operation_error : Status::success));
  const Completion c = p.next(p.b);
  CHECK(c.id == 7);
  const Status own = is_siw(p.b) ? Status::fatal : Status::local_protection_error;
  CHECK(c.status == (is_rxe(p.b) ? Status::local_qp_operation_error : own));
  if (!confirms(p)) require_end(p);
}
WEFT_ON_EACH_PORT(receive_with_bad_key, "a receive with a wrong key fails on both sides (C-NAK-40)")

void receiver_not_ready(Wire wire) {
  Pair p(wire);  // rnr_retry 7: without limit
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 64), in = far.sge(0, 64);
  REQUIRE(p.qa.post_send({.id = 1, .sges = {&out, 1}}));
  if (!confirms(p)) {  // it was sent; without a receive there the connection ends
    CHECK(p.next(p.a).status == Status::success);
    return void(require_end(p));
  }
  SendRequest with_imm = request_of(Opcode::write_with_imm, out, far.address(), far.region.rkey());
  with_imm.id = 2;
  REQUIRE(p.qa.post_send(with_imm));
  p.poll_for(Duration::from_ms(20));
  REQUIRE(p.a.got.empty());
  if (p.a.counts("rx_rnr_naks")) CHECK(p.a.counter("rx_rnr_naks") > 1);
  for (uint64_t i = 0; i < 2; ++i) REQUIRE(p.qb.post_recv({.id = 10 + i, .sges = {&in, 1}}));
  for (uint64_t i = 0; i < 2; ++i) {
    Completion c = p.next(p.a);
    CHECK((c.status == Status::success && c.id == 1 + i));
    c = p.next(p.b);
    CHECK((c.status == Status::success && c.id == 10 + i));
  }
}
WEFT_ON_EACH_PORT(receiver_not_ready, "a SEND waits for its receive (C-NAK-42 C-RETRY-48 C-OPS-72)")

void never_ready(Wire wire) {
  Pair p(wire, {.walk = {.rnr_retry = 3, .min_rnr_timer = 1}});
  if (!confirms(p)) return;  // receiver_not_ready
  const Buffer near(p.a, 64);
  const Sge out = near.sge(0, 64);
  for (uint64_t i = 1; i < 4; ++i) REQUIRE(p.qa.post_send({.id = i, .sges = {&out, 1}}));
  const Completion c = p.next(p.a);
  CHECK(c.id == 1);
  CHECK(c.status == Status::rnr_retry_exceeded);
  require_flushed(p, p.a, p.qa, 2, 2);
  if (p.a.counts("rx_rnr_naks"))
    CHECK(p.a.counter("rx_rnr_naks") == 4);  // the first and three more
}
WEFT_ON_EACH_PORT(never_ready,
                  "a peer that is never ready ends the retries (C-RETRY-48 C-STATE-61)")

void peer_gone(Wire wire) {
  Pair p(wire, {.walk = {.timeout = 8, .retry_count = 3}});  // 1.05 ms each
  const Buffer near(p.a, 64), far(p.b, 64);
  p.qb = QueuePair{};
  const Sge out = near.sge(0, 64);
  const int64_t begin = clock_ns();
  for (uint64_t i = 1; i < 4; ++i)
    REQUIRE(p.qa.post_send(request_of(Opcode::write, out, far.address(), far.region.rkey(), i)));
  if (!confirms(p)) {  // TCP detects it at once
    REQUIRE(pump_until({&p.a, &p.b}, [&] { return p.qa.state() == QpState::err; }));
    uint64_t id = 1;
    for (const Completion& c : p.wait(p.a, 3)) {
      CHECK(c.id == id++);
      CHECK((c.status == Status::success || c.status == Status::flushed));
    }
    return;
  }
  const Completion c = p.next(p.a);
  const double ms = static_cast<double>(clock_ns() - begin) / 1e6;
  CHECK(c.id == 1);
  CHECK(c.status == Status::retry_exceeded);
  CHECK(ms >= 4 * 1.048);  // four transmissions, each with its timeout
  std::printf("retries ended after %.1f ms of at least 4.2\n", ms);
  if (p.a.counts("timeouts")) CHECK(p.a.counter("timeouts") == 4);
  require_flushed(p, p.a, p.qa, 2, 2);
}
WEFT_ON_EACH_PORT(peer_gone, "a silent peer ends the retries (C-RETRY-46 C-RETRY-47)")

void exactly_once(Wire wire) {
  Random random(test_seed("errors_test"));
  Pair p(wire, {.walk = {.timeout = 12}, .qp = {.max_send_wr = 200, .max_recv_wr = 200}});
  const Buffer near(p.a, 65536), far(p.b, 65536);
  const Sge out = near.sge(0, 3000), word = near.sge(0, 8);
  const uint32_t fatal = 20 + random.below(100);
  std::multiset<uint64_t> sends, receives;
  for (uint64_t i = 0; i < 150; ++i) REQUIRE(p.qb.post_recv({.id = i}));
  for (uint64_t i = 0; i < 150; ++i) {
    const uint32_t kind = random.below(p.a.device.attributes().has_atomics ? 3 : 2);
    SendRequest r = request_of(kind == 2   ? Opcode::fetch_add
                               : kind == 1 ? Opcode::read
                                           : Opcode::write,
                               kind == 2 ? word : out, far.address(), far.region.rkey(), i);
    if (i == fatal) r.rkey.value ^= 1;
    REQUIRE(p.qa.post_send(r));
  }
  uint64_t first_failure = UINT64_MAX;
  for (const Completion& c : p.wait(p.a, 150)) {
    sends.insert(c.id);
    if (c.status == Status::success || !confirms(p)) continue;
    if (first_failure == UINT64_MAX) {
      first_failure = c.id;
      INFO("request " << c.id << ": " << name(c.status));
      // Where the NAK may get lost, the request ends in retry_exceeded instead.
      CHECK((c.status == Status::remote_access_error ||
             (lossy(wire) && c.status == Status::retry_exceeded)));
    } else {
      CHECK(c.status == Status::flushed);
    }
  }
  CHECK((!confirms(p) || first_failure == fatal || (lossy(wire) && first_failure < fatal)));
  for (const Completion& c : p.wait(p.b, 150)) receives.insert(c.id);
  for (uint64_t i = 0; i < 150; ++i) {
    CHECK(sends.count(i) == 1);
    CHECK(receives.count(i) == 1);
  }
  p.poll_for(Duration::from_ms(5));
  CHECK(p.a.got.empty());
  CHECK(p.b.got.empty());
}
WEFT_ON_EACH_WIRE(exactly_once, "every request completes exactly once (C-STATE-61 C-STATE-62)")

}  // namespace
}  // namespace weft
