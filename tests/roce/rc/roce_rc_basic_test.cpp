// SPDX-License-Identifier: BSD-3-Clause
// Each operation of RC on a quiet network: what arrives, what completes, how, and in which order.
// Every case runs with ordinary start PSNs and with PSNs that wrap inside the test (//=
// roce:C-PSN-18).
#include <algorithm>

#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

void check_success(const Completion& c, uint64_t id, WorkType type, uint32_t bytes) {
  CHECK(c.status == Status::success);
  CHECK(c.id == id);
  CHECK(c.type == type);
  CHECK(c.byte_count == bytes);
}

TEST_CASE("SEND arrives in the receive buffer, roce:C-PSN-18") {
  Pair p(options_with(start_psn()));
  fill(p.station_a.at(0), 5000, 1);
  CHECK(p.b.recv(11, {p.station_b.sge(64, 6000)}));
  const Sge sge = p.station_a.sge(0, 5000);
  CHECK(p.a.send(p.request(Opcode::send, 1, {&sge, 1})));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 1, WorkType::send, 5000);
  const Completion c = p.b.only_received();
  check_success(c, 11, WorkType::recv, 5000);
  CHECK(c.qp == p.b.qp().number);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(64), 5000) == 0);
  CHECK(all_are(p.station_b.at(5064), 936, std::byte{0}));
  CHECK(all_are(p.station_b.at(0), 64, std::byte{0}));
  check_quiet(p.station_a);
  check_quiet(p.station_b);
}

TEST_CASE("SEND with immediate data, roce:C-PSN-18") {
  Pair p(options_with(start_psn()));
  const uint32_t size = GENERATE(0u, 8u, 2048u, 3000u);
  fill(p.station_a.at(0), size, 2);
  CHECK(p.b.recv(12, {p.station_b.sge(0, 4096)}));
  const Sge sge = p.station_a.sge(0, size);
  SendRequest r = p.request(Opcode::send_with_imm, 2, {&sge, 1});
  r.imm = 0xCAFE1234;
  CHECK(p.a.send(r));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 2, WorkType::send, size);
  const Completion c = p.b.only_received();
  check_success(c, 12, WorkType::recv_with_imm, size);
  CHECK(has(c.flags, CompletionFlags::with_imm));
  CHECK(c.imm_or_key == 0xCAFE1234);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), size) == 0);
}

TEST_CASE("SEND with invalidate revokes the key before the receive completes, roce:C-OPS-73") {
  Pair p(options_with(start_psn()));
  const uint32_t size = GENERATE(16u, 2500u);
  const uint32_t key =
      p.station_b.engine().keys().insert(p.station_b.at(8192), 4096, Access::all, Station::kDomain);
  CHECK(p.b.recv(13, {p.station_b.sge(0, 4096)}));
  const Sge sge = p.station_a.sge(0, size);
  SendRequest r = p.request(Opcode::send_with_invalidate, 3, {&sge, 1});
  r.invalidate = RKey{key};
  CHECK(p.a.send(r));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 3, WorkType::send, size);
  const Completion c = p.b.only_received();
  check_success(c, 13, WorkType::recv, size);
  CHECK(has(c.flags, CompletionFlags::with_invalidate));
  CHECK(c.imm_or_key == key);
  // The key is of no more use to the peer.
  SendRequest w = p.request(Opcode::write, 4, {&sge, 1}, 8192);
  w.rkey = RKey{key};
  CHECK(p.a.send(w));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::remote_access_error);
  CHECK(all_are(p.station_b.at(8192), 4096, std::byte{0}));
}

TEST_CASE("SEND with invalidate of an unknown key, roce:C-OPS-73") {
  Pair p;
  CHECK(p.b.recv(13, {p.station_b.sge(0, 4096)}));
  const Sge sge = p.station_a.sge(0, 16);
  SendRequest r = p.request(Opcode::send_with_invalidate, 3, {&sge, 1});
  r.invalidate = RKey{0x12345678};
  CHECK(p.a.send(r));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::remote_access_error);
  CHECK(p.b.only_received().status != Status::success);
}

TEST_CASE("WRITE lands at its address only, roce:C-PSN-18") {
  Pair p(options_with(start_psn()));
  fill(p.station_a.at(100), 3333, 3);
  const Sge sge = p.station_a.sge(100, 3333);
  CHECK(p.a.send(p.request(Opcode::write, 5, {&sge, 1}, 77)));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 5, WorkType::write, 3333);
  CHECK(p.b.received().empty());
  CHECK(std::memcmp(p.station_a.at(100), p.station_b.at(77), 3333) == 0);
  CHECK(all_are(p.station_b.at(0), 77, std::byte{0}));
  CHECK(all_are(p.station_b.at(77 + 3333), 4096, std::byte{0}));
  check_quiet(p.station_a);
  check_quiet(p.station_b);
}

TEST_CASE("WRITE with immediate consumes one receive, roce:C-OPS-72 roce:C-PSN-18") {
  Pair p(options_with(start_psn()));
  const uint32_t size = GENERATE(0u, 4u, 1024u, 5000u);
  fill(p.station_a.at(0), size, 4);
  CHECK(p.b.recv(14, {}));
  const Sge sge = p.station_a.sge(0, size);
  SendRequest r = p.request(Opcode::write_with_imm, 6, {&sge, 1}, 4096);
  r.imm = 77;
  CHECK(p.a.send(r));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 6, WorkType::write, size);
  const Completion c = p.b.only_received();
  check_success(c, 14, WorkType::recv_with_imm, size);
  CHECK(has(c.flags, CompletionFlags::with_imm | CompletionFlags::rdma_write));
  CHECK(c.imm_or_key == 77);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(4096), size) == 0);
}

TEST_CASE("READ fetches, roce:C-PSN-18 roce:C-PSN-22") {
  Pair p(options_with(start_psn()));
  const uint32_t size = GENERATE(0u, 1u, 1024u, 1025u, 9000u);
  fill(p.station_b.at(33), size, 5);
  const Sge sge = p.station_a.sge(11, size);
  CHECK(p.a.send(p.request(Opcode::read, 7, {&sge, 1}, 33)));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 7, WorkType::read, size);
  CHECK(std::memcmp(p.station_a.at(11), p.station_b.at(33), size) == 0);
  CHECK(all_are(p.station_a.at(11 + size), 4096, std::byte{0}));
  CHECK(all_are(p.station_a.at(0), 11, std::byte{0}));
  check_quiet(p.station_a);
  check_quiet(p.station_b);
}

TEST_CASE("atomics return the value before, roce:C-OPS-75 roce:C-PSN-18") {
  Pair p(options_with(start_psn()));
  uint64_t* const there = reinterpret_cast<uint64_t*>(p.station_b.at(64));
  uint64_t* const here = reinterpret_cast<uint64_t*>(p.station_a.at(8));
  *there = 100;
  const Sge sge = p.station_a.sge(8, 8);
  SendRequest add = p.request(Opcode::fetch_add, 1, {&sge, 1}, 64);
  add.compare_add = uint64_t{1} << 40;
  CHECK(p.a.send(add));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 1, WorkType::fetch_add, 8);
  CHECK(*here == 100);
  CHECK(*there == 100 + (uint64_t{1} << 40));

  SendRequest swap = p.request(Opcode::compare_swap, 2, {&sge, 1}, 64);
  swap.compare_add = 5;  // does not fit
  swap.swap = 6;
  CHECK(p.a.send(swap));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 2, WorkType::compare_swap, 8);
  CHECK(*here == 100 + (uint64_t{1} << 40));
  CHECK(*there == *here);

  swap.compare_add = *there;
  CHECK(p.a.send(swap));
  REQUIRE(p.world.run());
  check_success(p.a.only_sent(), 2, WorkType::compare_swap, 8);
  CHECK(*there == 6);
  check_quiet(p.station_b);
}

TEST_CASE("an atomic's result may lie in pieces") {
  Pair p;
  const uint64_t value = 0x0123456789ABCDEF;
  std::memcpy(p.station_b.at(0), &value, 8);
  const Sge sges[] = {p.station_a.sge(0, 3), p.station_a.sge(50, 0), p.station_a.sge(100, 5)};
  CHECK(p.a.send(p.request(Opcode::fetch_add, 1, sges)));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
  uint64_t got;
  std::memcpy(&got, p.station_a.at(0), 3);
  std::memcpy(reinterpret_cast<std::byte*>(&got) + 3, p.station_a.at(100), 5);
  CHECK(got == value);
}

TEST_CASE("an unsignaled request completes without a completion") {
  Pair p(options_with(start_psn()));
  const Sge sge = p.station_a.sge(0, 100);
  for (uint64_t id = 1; id <= 10; ++id) {
    SendRequest r = p.request(Opcode::write, id, {&sge, 1});
    if (id % 5 != 0) r.flags = SendFlags::none;
    CHECK(p.a.send(r));
  }
  REQUIRE(p.world.run());
  const std::vector<Completion> all = p.a.sent();
  REQUIRE(all.size() == 2);
  CHECK(all[0].id == 5);
  CHECK(all[1].id == 10);
  CHECK(p.a.qp().sq.empty());
}

TEST_CASE("completions come in the order of posts, over all operations") {
  PairOptions o = options_with(start_psn(), 256);
  Pair p(o);
  const Sge eight = p.station_a.sge(0, 8), page = p.station_a.sge(64, 3000);
  for (uint64_t id = 0; id < 60; ++id) {
    const auto opcode = static_cast<Opcode>((id * 5 + id / 8) % 8);
    if (opcode == Opcode::send_with_invalidate) continue;
    CHECK(p.b.recv(id, {p.station_b.sge(8192, 4096)}));
    const bool atomic = opcode >= Opcode::compare_swap;
    CHECK(p.a.send(p.request(opcode, id, {atomic ? &eight : &page, 1}, 64)));
  }
  REQUIRE(p.world.run());
  const std::vector<Completion> all = p.a.sent();
  uint64_t last = 0;
  for (const Completion& c : all) {
    CHECK(c.status == Status::success);
    CHECK((c.id > last || c.id == 0));
    last = c.id;
  }
  CHECK(all.size() == 53);
}

TEST_CASE("a fenced request waits for earlier READs and atomics, roce:C-OPS-80") {
  Pair p(options_with(start_psn()));
  const Opcode first = GENERATE(Opcode::read, Opcode::fetch_add);
  std::vector<uint8_t> sent;
  bool answered = false;
  p.station_a.tap().filter = [&](const SentFrame& f) {
    if (f.info().operation == wire::Operation::write) CHECK(answered);
    sent.push_back(f.opcode());
    return true;
  };
  p.station_b.tap().filter = [&](const SentFrame& f) {
    answered = f.info().ends_message();
    return true;
  };
  const Sge target = p.station_a.sge(0, first == Opcode::read ? 8000 : 8);
  const Sge source = p.station_a.sge(0, 8);
  CHECK(p.a.send(p.request(first, 1, {&target, 1})));
  SendRequest w = p.request(Opcode::write, 2, {&source, 1}, 20000);
  w.flags = SendFlags::signaled | SendFlags::fence;
  CHECK(p.a.send(w));
  REQUIRE(p.world.run());
  CHECK(p.a.sent().size() == 2);
  CHECK(sent.size() == 2);
}

TEST_CASE("at most max_rd_atomic READs and atomics are outstanding, roce:C-OPS-74") {
  PairOptions o = options_with(start_psn());
  o.connect.max_rd_atomic = GENERATE(uint8_t{1}, uint8_t{3});
  o.connect.max_dest_rd_atomic = o.connect.max_rd_atomic;
  Pair p(o);
  int out = 0, most = 0;
  p.station_a.tap().filter = [&](const SentFrame&) { return most = std::max(most, ++out), true; };
  p.station_b.tap().filter = [&](const SentFrame& f) {
    if (f.info().ends_message()) --out;
    return true;
  };
  const Sge eight = p.station_a.sge(0, 8), page = p.station_a.sge(64, 3000);
  for (uint64_t id = 0; id < 20; ++id) {
    const bool atomic = id % 3 == 0;
    CHECK(p.a.send(
        p.request(atomic ? Opcode::fetch_add : Opcode::read, id, {atomic ? &eight : &page, 1})));
  }
  REQUIRE(p.world.run());
  CHECK(p.a.sent().size() == 20);
  CHECK(most == o.connect.max_rd_atomic);
  check_quiet(p.station_b);
}

TEST_CASE("a delayed acknowledgement leaves before its queue pair is destroyed") {
  Pair p;
  std::vector<std::byte> request;
  p.station_a.tap().filter = [&request](const SentFrame& f) {
    request = f.bytes;
    return false;  // b gets it by hand, and nothing after it
  };
  const Sge sge = p.station_a.sge(0, 8);
  fill(p.station_a.at(0), 8, 1);
  REQUIRE(p.a.send(p.request(Opcode::write, 1, {&sge, 1}, 64)));
  p.world.run_for(Duration::from_us(10));
  roce::Engine& target = p.station_b.engine();
  CHECK_FALSE(target.flush_pending_ack(p.b.qp()));
  give(target, path_of(p.a), request, p.world.now());
  REQUIRE(std::memcmp(p.station_b.at(64), p.station_a.at(0), 8) == 0);
  CHECK(target.flush_pending_ack(p.b.qp()));
  transport::TxFrame frames[4];
  REQUIRE(target.transmit(frames, p.world.now()) == 1);
  CHECK_FALSE(target.flush_pending_ack(p.b.qp()));
  CHECK(p.station_b.tap().transmit({frames, 1}) == 1);
  target.destroy_qp(&p.b.qp());
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
}

TEST_CASE("immediate data of 64 bits is rejected at post, with the remedy") {
  Pair p(options_with(start_psn(), 512));
  const Sge out = p.station_a.sge(0, 8);
  SendRequest r = p.request(Opcode::send_with_imm, 1, {&out, 1});
  r.imm_high = 1;
  const PostStatus status = p.a.send(r);
  CHECK(status.code == Code::invalid_argument);
  CHECK(std::string_view(status.reason).find("set imm_high to 0") != std::string_view::npos);
}

TEST_CASE("both directions at once") {
  PairOptions o = options_with(start_psn(), 512);
  Pair p(o);
  fill(p.station_a.at(0), 60000, 1);
  fill(p.station_b.at(0), 60000, 2);
  for (uint64_t id = 0; id < 20; ++id) {
    const auto offset = static_cast<size_t>(id) * 3000;
    const Sge from_a = p.station_a.sge(offset, 3000), from_b = p.station_b.sge(offset, 3000);
    CHECK(p.a.send(p.request(Opcode::write, id, {&from_a, 1}, 100000 + offset)));
    SendRequest r = p.request(Opcode::write, id, {&from_b, 1});
    r.remote_address = p.station_a.address_of(100000 + offset);
    r.rkey = RKey{p.station_a.key()};
    CHECK(p.b.send(r));
  }
  REQUIRE(p.world.run());
  CHECK(p.a.sent().size() == 20);
  CHECK(p.b.sent().size() == 20);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(100000), 60000) == 0);
  CHECK(std::memcmp(p.station_b.at(0), p.station_a.at(100000), 60000) == 0);
  check_quiet(p.station_a);
  check_quiet(p.station_b);
}

}  // namespace
}  // namespace weft::test
