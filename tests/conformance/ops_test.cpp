// SPDX-License-Identifier: BSD-3-Clause
// Every operation of RC through the public API, over every port: data, completions, and that each
// request completes exactly once. Errors: errors_test.cpp.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/steps.hpp"

namespace weft {
namespace {

using namespace test;

constexpr SendFlags kUnsignaled = SendFlags::none;

SendRequest write_request(const Sge& from, const Buffer& to, size_t offset, uint64_t id = 0) {
  return {.id = id,
          .opcode = Opcode::write,
          .sges = {&from, 1},
          .remote_address = to.address(offset),
          .rkey = to.region.rkey()};
}

SendRequest read_request(const Sge& to, const Buffer& from, size_t offset, uint64_t id = 0) {
  SendRequest request = write_request(to, from, offset, id);
  request.opcode = Opcode::read;
  return request;
}

bool by_id(const Completion& x, const Completion& y) { return x.id < y.id; }

// Sends sizes around the MTU in all three ways.
void require_refusal(const QueuePair& qp, const SendRequest& request, std::string_view why) {
  const PostStatus refused = qp.post_send(request);
  CHECK(refused.code == Code::invalid_argument);
  CHECK(std::string(refused.reason).find(why) != std::string::npos);
}

void transfer_sizes(Pair& p, const Buffer& near, const Buffer& far, uint32_t mtu, uint64_t seed) {
  const size_t sizes[] = {0, 1, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 5 * mtu + 7};
  for (const size_t size : sizes) {
    const size_t from = size % 7, to = size % 13;  // any alignment
    fill(near.bytes(), seed + size);
    const Sge out = near.sge(from, size), in = far.sge(to, size);
    REQUIRE(p.qa.post_send(write_request(out, far, to, 1)));
    require_success(p.next(p.a), 1, WorkType::write, static_cast<uint32_t>(size));
    REQUIRE(equal(near.bytes(from, size), far.bytes(to, size)));
    std::memset(near.at(), 0, near.size());
    REQUIRE(p.qa.post_send(read_request(out, far, to, 2)));
    require_success(p.next(p.a), 2, WorkType::read, static_cast<uint32_t>(size));
    REQUIRE(equal(near.bytes(from, size), far.bytes(to, size)));
    fill(near.bytes(), seed - size);
    REQUIRE(p.qb.post_recv({.id = 4, .sges = {&in, 1}}));
    REQUIRE(p.qa.post_send({.id = 3, .sges = {&out, 1}}));
    require_success(p.next(p.b), 4, WorkType::recv, static_cast<uint32_t>(size));
    require_success(p.next(p.a), 3, WorkType::send, static_cast<uint32_t>(size));
    REQUIRE(equal(near.bytes(from, size), far.bytes(to, size)));
  }
}

void mtus(Wire wire) {
  const uint64_t seed = test_seed("ops_test");
  for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
    const Walk walk{.mtu = mtu, .psn_a = {0xFFFFFE}, .psn_b = {0xFFFFF9}};
    Pair p(wire, {.walk = walk});
    const Buffer near(p.a, 6 * mtu + 64), far(p.b, 6 * mtu + 64);
    transfer_sizes(p, near, far, mtu, seed);
    if (p.a.device.attributes().active_mtu < mtu) break;
    if (!p.a.device.attributes().only_by_cm) CHECK(p.qa.query().path_mtu == mtu);
  }
}
WEFT_ON_EACH_WIRE_AND_SRD(mtus,
                          "SEND WRITE and READ of each size at each MTU across the PSN wrap "
                          "(C-OPS-70 C-OPS-71 C-OPS-78 C-PSN-18 C-PSN-22)")

void large(Wire wire) {
  const uint64_t seed = test_seed("ops_test");
  const size_t size = 3'000'001;
  Pair p(wire, {.walk = {.mtu = 4096}});
  const Buffer near(p.a, size), far(p.b, size), back(p.a, size);
  fill(near.bytes(), seed);
  const Sge out = near.sge(0, size), in = back.sge(0, size);
  const SendRequest requests[] = {write_request(out, far, 0, 1), read_request(in, far, 0, 2)};
  REQUIRE(p.qa.post_send(requests));
  require_success(p.next(p.a), 1, WorkType::write, size);
  require_success(p.next(p.a), 2, WorkType::read, size);
  CHECK(equal(near.bytes(), far.bytes()));
  CHECK(equal(near.bytes(), back.bytes()));
  fill(near.bytes(), seed + 1);
  const Sge landing = far.sge(0, size);
  REQUIRE(p.qb.post_recv({.id = 3, .sges = {&landing, 1}}));
  REQUIRE(p.qa.post_send({.id = 4, .sges = {&out, 1}}));
  require_success(p.next(p.b), 3, WorkType::recv, size);
  require_success(p.next(p.a), 4, WorkType::send, size);
  CHECK(equal(near.bytes(), far.bytes()));
}
WEFT_ON_EACH_WIRE(large, "messages of megabytes arrive whole (C-OPS-79)")

void immediate(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 4096), far(p.b, 4096);
  fill(near.bytes(), 5);
  const Sge out = near.sge(0, 2500), in = far.sge(0, 4096);
  const SendRequest word{.opcode = Opcode::send_with_imm, .sges = {&out, 1}};
  if (!p.a.device.attributes().has_immediate) return require_refusal(p.qa, word, "has_immediate");
  REQUIRE(p.qb.post_recv({.id = 10, .sges = {&in, 1}}));
  REQUIRE(p.qb.post_recv({.id = 11}));
  REQUIRE(p.qa.post_send(
      {.id = 1, .opcode = Opcode::send_with_imm, .imm = 0xA1B2C3D4, .sges = {&out, 1}}));
  Completion c = p.next(p.b);
  require_success(c, 10, WorkType::recv_with_imm, 2500);
  CHECK(c.imm_or_key == 0xA1B2C3D4);
  CHECK(c.flags == CompletionFlags::with_imm);
  CHECK(c.qp == p.qb.number());
  CHECK(equal(near.bytes(0, 2500), far.bytes(0, 2500)));

  fill(near.bytes(), 6);
  SendRequest request = write_request(out, far, 1000, 2);
  request.opcode = Opcode::write_with_imm;
  request.imm = 7;
  REQUIRE(p.qa.post_send(request));
  c = p.next(p.b);
  require_success(c, 11, WorkType::recv_with_imm, 2500);
  CHECK(c.imm_or_key == 7);
  CHECK(c.flags == (CompletionFlags::with_imm | CompletionFlags::rdma_write));
  // The data is there when the completion is. //= roce:C-OPS-81
  CHECK(equal(near.bytes(0, 2500), far.bytes(1000, 2500)));
  require_success(p.next(p.a), 1, WorkType::send, 2500);
  require_success(p.next(p.a), 2, WorkType::write, 2500);
}
WEFT_ON_EACH_WIRE_AND_SRD(immediate, "SEND and WRITE with immediate data (C-OPS-72 C-OPS-81)")

void invalidate(Wire wire) {
  Pair p(wire);
  if (!p.b.device.attributes().invalidates_regions) return;
  const Buffer near(p.a, 64), far(p.b, 64), other(p.b, 64);
  const Sge out = near.sge(0, 64), in = far.sge(0, 64);
  REQUIRE(p.qa.post_send(write_request(out, other, 0, 1)));  // the key works
  require_success(p.next(p.a), 1, WorkType::write, 64);
  REQUIRE(p.qb.post_recv({.id = 2, .sges = {&in, 1}}));
  REQUIRE(p.qa.post_send({.id = 3,
                          .opcode = Opcode::send_with_invalidate,
                          .invalidate = other.region.rkey(),
                          .sges = {&out, 1}}));
  const Completion c = p.next(p.b);
  require_success(c, 2, WorkType::recv, 64);
  CHECK(c.flags == CompletionFlags::with_invalidate);
  CHECK(c.imm_or_key == other.region.rkey().value);
  require_success(p.next(p.a), 3, WorkType::send, 64);
  // Local use goes on: here as the target of a receive.
  const Sge local = other.sge(0, 64);
  REQUIRE(p.qb.post_recv({.id = 4, .sges = {&local, 1}}));
  REQUIRE(p.qa.post_send({.id = 5, .sges = {&out, 1}}));
  require_success(p.next(p.b), 4, WorkType::recv, 64);
  require_success(p.next(p.a), 5, WorkType::send, 64);
  REQUIRE(p.qa.post_send(write_request(out, other, 0, 6)));
  CHECK(p.next(p.a).status == Status::remote_access_error);
}
WEFT_ON_EACH_WIRE(invalidate,
                  "SEND with invalidate revokes the key before its completion (C-OPS-73)")

void atomics(Wire wire) {
  Pair p(wire, {.walk = {.psn_a = {0xFFFFFC}}});
  const Buffer result(p.a, 64), far(p.b, 64);
  far.word(8) = 40;
  const Sge in = result.sge(16, 8);
  SendRequest request{.id = 1,
                      .opcode = Opcode::fetch_add,
                      .sges = {&in, 1},
                      .remote_address = far.address(8),
                      .rkey = far.region.rkey(),
                      .compare_add = 2};
  if (!p.a.device.attributes().has_atomics) return require_refusal(p.qa, request, "has_atomics");
  const uint64_t rounds = 500;
  for (uint64_t i = 0; i < rounds; ++i) {
    REQUIRE(p.qa.post_send(request));
    require_success(p.next(p.a), 1, WorkType::fetch_add, 8);
    REQUIRE(result.word(16) == 40 + 2 * i);
  }
  CHECK(far.word(8) == 40 + 2 * rounds);  // each exactly once
  request.opcode = Opcode::compare_swap;
  request.compare_add = 1;  // not what is there
  request.swap = 99;
  REQUIRE(p.qa.post_send(request));
  require_success(p.next(p.a), 1, WorkType::compare_swap, 8);
  CHECK(result.word(16) == 40 + 2 * rounds);
  CHECK(far.word(8) == 40 + 2 * rounds);
  request.compare_add = 40 + 2 * rounds;
  REQUIRE(p.qa.post_send(request));
  require_success(p.next(p.a), 1, WorkType::compare_swap, 8);
  CHECK(far.word(8) == 99);
}
WEFT_ON_EACH_WIRE_AND_SRD(atomics,
                          "atomics apply exactly once and return the old value (C-OPS-75 C-DUP-27)")

void pipelined_atomics(Wire wire) {
  Pair p(wire, {.walk = {.max_rd_atomic = 8}, .qp = {.max_send_wr = 64}});
  if (!p.a.device.attributes().has_atomics) return;
  const uint64_t total = 640;
  const Buffer results(p.a, 8 * total), far(p.b, 8);
  uint64_t posted = 0, done = 0;
  while (done < total) {
    for (; posted < total && posted - done < 64; ++posted) {
      const Sge in = results.sge(8 * posted, 8);
      REQUIRE(p.qa.post_send({.id = posted,
                              .opcode = Opcode::fetch_add,
                              .sges = {&in, 1},
                              .remote_address = far.address(),
                              .rkey = far.region.rkey(),
                              .compare_add = 1}));
    }
    require_success(p.next(p.a), done++, WorkType::fetch_add, 8);
  }
  for (uint64_t i = 0; i < total; ++i) REQUIRE(results.word(8 * i) == i);  // in order, once each
}
WEFT_ON_EACH_WIRE(pipelined_atomics,
                  "more atomics than max_rd_atomic wait their turn (C-OPS-74 C-NAK-38)")

bool has_less(Wire wire, uint32_t DeviceAttributes::*limit, uint32_t needed) {
  return wire == Wire::ibverbs && Side(device_string(wire)).device.attributes().*limit < needed;
}

void inline_data(Wire wire) {
  if (has_less(wire, &DeviceAttributes::max_inline, 200)) return;
  Pair p(wire, {.qp = {.max_send_wr = 64, .max_inline = 200}});
  const Buffer far(p.b, 64 * 200);
  for (uint64_t i = 0; i < 64; ++i) {
    std::byte local[200];  // not registered
    fill(local, i);
    Sge pieces[2] = {{local, 77, {}}, {local + 77, 123, {}}};
    REQUIRE(p.qa.post_send({.id = i,
                            .opcode = Opcode::write,
                            .flags = SendFlags::signaled | SendFlags::inline_data,
                            .sges = pieces,
                            .remote_address = far.address(i * 200),
                            .rkey = far.region.rkey()}));
    std::memset(local, 0xEE, sizeof local);  // free at return
  }
  std::vector<Completion> done = p.wait(p.a, 64);
  if (is_srd(wire)) std::sort(done.begin(), done.end(), by_id);  // it promises no order
  for (uint64_t i = 0; i < 64; ++i) require_success(done[i], i, WorkType::write, 200);
  for (uint64_t i = 0; i < 64; ++i) {
    std::byte expected[200];
    fill(expected, i);
    REQUIRE(equal(expected, far.bytes(i * 200, 200)));
  }
}
WEFT_ON_EACH_WIRE_AND_SRD(inline_data, "inline data is copied at post (C-OPS-76)")

// Cuts [0, size) of `buffer` into `count` entries, some of them empty.
std::vector<Sge> cut(const Buffer& buffer, size_t size, size_t count, Random& random) {
  std::vector<Sge> pieces;
  size_t at = 0;
  for (size_t i = 0; i + 1 < count; ++i) {
    const size_t left = size - at;
    const size_t length =
        random.one_in(4) ? 0 : random.below(static_cast<uint32_t>(2 * left / count + 1));
    pieces.push_back(buffer.sge(at, length));
    at += length;
  }
  pieces.push_back(buffer.sge(at, size - at));
  return pieces;
}

void scatter_gather(Wire wire) {
  Random random(test_seed("ops_test"));
  constexpr uint32_t kSges = 16;
  if (has_less(wire, &DeviceAttributes::max_sge, kSges)) return;
  Pair p(wire, {.qp = {.max_send_sge = kSges, .max_recv_sge = kSges}});
  const size_t largest = 20'000;
  const Buffer near(p.a, largest), far(p.b, largest), back(p.a, largest);
  for (int round = 0; round < 40; ++round) {
    const size_t size = random.below(largest);
    fill(near.bytes(), random.next());
    const std::vector<Sge> out = cut(near, size, 1 + random.below(kSges), random);
    const std::vector<Sge> in = cut(far, largest, 1 + random.below(kSges), random);
    REQUIRE(p.qb.post_recv({.id = 1, .sges = in}));
    REQUIRE(p.qa.post_send({.id = 2, .sges = out}));
    require_success(p.next(p.b), 1, WorkType::recv, static_cast<uint32_t>(size));
    require_success(p.next(p.a), 2, WorkType::send, static_cast<uint32_t>(size));
    REQUIRE(equal(near.bytes(0, size), far.bytes(0, size)));
    const std::vector<Sge> landing = cut(back, size, 1 + random.below(kSges), random);
    REQUIRE(p.qa.post_send({.id = 3,
                            .opcode = Opcode::read,
                            .sges = landing,
                            .remote_address = far.address(),
                            .rkey = far.region.rkey()}));
    require_success(p.next(p.a), 3, WorkType::read, static_cast<uint32_t>(size));
    REQUIRE(equal(near.bytes(0, size), back.bytes(0, size)));
  }
  const std::vector<Sge> many(kSges + 1, near.sge(0, 1));
  const PostStatus refused = p.qa.post_send({.sges = many});
  CHECK(refused.code == Code::invalid_argument);
  CHECK(std::string_view(refused.reason).find("max_send_sge") != std::string_view::npos);
  CHECK(p.qb.post_recv({.sges = many}).code == Code::invalid_argument);
}
WEFT_ON_EACH_WIRE_AND_SRD(scatter_gather,
                          "lists of pieces of any length gather and scatter (C-OPS-77)")

void too_long(Wire wire) {
  Pair p(wire);
  if (p.a.device.attributes().max_message > uint64_t{1} << 31) return;  // iWARP takes 4 GiB
  const Buffer near(p.a, 64);
  const Sge huge[2] = {{near.at(), 0x80000000, near.region.lkey()}, near.sge(0, 1)};
  const PostStatus refused = p.qa.post_send({.sges = huge});
  CHECK(refused.code == Code::invalid_argument);
  CHECK(refused.accepted == 0);
  CHECK(p.qa.state() == QpState::rts);
}
WEFT_ON_EACH_PORT_AND_SRD(too_long,
                          "a message longer than 2^31 bytes is refused at post (C-OPS-77 C-OPS-79)")

void unsignaled(Wire wire) {
  Pair p(wire, {.qp = {.max_send_wr = 32}});
  const Buffer near(p.a, 4096), far(p.b, 4096);
  std::iota(reinterpret_cast<uint8_t*>(near.at()), reinterpret_cast<uint8_t*>(near.at(4096)), 0);
  for (uint64_t i = 0; i < 256; ++i) {  // 8 times the queue: unsignaled ones give their place back
    const Sge out = near.sge(i * 16, 16);
    SendRequest request = write_request(out, far, i * 16, i);
    request.flags = i % 16 == 15 ? SendFlags::signaled : kUnsignaled;
    REQUIRE(p.qa.post_send(request));
    if (i % 16 == 15) require_success(p.next(p.a), i, WorkType::write, 16);
  }
  p.poll_for();
  CHECK(p.a.got.empty());
  if (is_srd(wire))  // a completion says nothing of the requests before it
    pump_until({&p.a, &p.b}, [&] { return equal(near.bytes(), far.bytes()); });
  CHECK(equal(near.bytes(), far.bytes()));
}
WEFT_ON_EACH_WIRE_AND_SRD(unsignaled, "unsignaled requests complete silently and free their place")

void post_lists(Wire wire) {
  Pair p(wire, {.qp = {.max_send_wr = 100, .max_recv_wr = 100}});
  const Buffer near(p.a, 6400), far(p.b, 6400);
  fill(near.bytes(), 9);
  std::vector<Sge> out(100), in(100);
  std::vector<SendRequest> sends;
  std::vector<RecvRequest> receives;
  for (size_t i = 0; i < 100; ++i) {
    out[i] = near.sge(64 * i, 64), in[i] = far.sge(64 * i, 64);
    sends.push_back({.id = i, .sges = {&out[i], 1}});
    receives.push_back({.id = 1000 + i, .sges = {&in[i], 1}});
  }
  CHECK(p.qb.post_recv(receives).accepted == 100);
  CHECK(p.qa.post_send(sends).accepted == 100);
  for (size_t i = 0; i < 100; ++i) {
    require_success(p.next(p.b), 1000 + i, WorkType::recv, 64);
    require_success(p.next(p.a), i, WorkType::send, 64);
  }
  CHECK(equal(near.bytes(), far.bytes()));
}
WEFT_ON_EACH_WIRE(post_lists, "lists of requests are executed in order")

void fence(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 65536), far(p.b, 65536), landing(p.b, 65536);
  const Sge whole = near.sge(0, 65536), in = landing.sge(0, 65536);
  for (uint64_t round = 1; round <= 20; ++round) {
    fill(far.bytes(), round);
    REQUIRE(p.qb.post_recv({.id = 3, .sges = {&in, 1}}));
    SendRequest send{.id = 2, .flags = SendFlags::signaled | SendFlags::fence, .sges = {&whole, 1}};
    const SendRequest list[] = {read_request(whole, far, 0, 1), send};
    REQUIRE(p.qa.post_send(list));
    require_success(p.next(p.a), 1, WorkType::read, 65536);
    require_success(p.next(p.a), 2, WorkType::send, 65536);
    require_success(p.next(p.b), 3, WorkType::recv, 65536);
    REQUIRE(equal(far.bytes(), landing.bytes()));  // what was read, not what lay there before
  }
}
WEFT_ON_EACH_WIRE(fence, "a fenced SEND carries what the READ before it brought (C-OPS-80)")

void own_peer(Wire wire) {
  const Side side(device_string(wire));
  const QueuePair left = side.queue_pair(), right = side.queue_pair();
  connect(left, right);
  const Buffer near(side, 100'000), far(side, 100'000);
  fill(near.bytes(), 3);
  const Sge out = near.sge(0, 100'000);
  REQUIRE(left.post_send(write_request(out, far, 0, 1)));
  Completion c;
  REQUIRE(side.cq.wait({&c, 1}, Duration::from_s(30)) == 1);
  require_success(c, 1, WorkType::write, 100'000);
  CHECK(equal(near.bytes(), far.bytes()));
}
WEFT_ON_EACH_PORT_AND_SRD(own_peer, "two queue pairs of one device reach each other")

}  // namespace
}  // namespace weft
