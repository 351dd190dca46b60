// SPDX-License-Identifier: BSD-3-Clause
// ctest: realtime
// Provider libfabric over the providers of libfabric that any machine has: each operation, the
// order of completions, and how a failure ends a queue pair.
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <numeric>

#include "tests/libfabric/two_ends.hpp"

namespace weft::test {
namespace {

void fill(End& end, size_t at, size_t length, int seed) {
  for (size_t i = 0; i < length; ++i)
    end.memory[at + i] = static_cast<char>(seed + i * 7 + i / 251);
}

bool same(const End& a, size_t at, const End& b, size_t bt, size_t length) {
  return std::memcmp(a.memory.data() + at, b.memory.data() + bt, length) == 0;
}

TEST_CASE("libfabric: SEND arrives in the receive, with and without immediate data") {
  TwoEnds ends(GENERATE(from_range(kDevices)));
  const uint32_t length = GENERATE(0u, 1u, 64u, 4096u, 100000u);
  CAPTURE(ends.a.device.attributes().spec, length);
  fill(ends.a, 0, length, 3);
  ends.b.receive(1, 200000, 200000);
  ends.b.receive(2, 500000, 200000);
  const Sge of = ends.a.sge(0, length);
  REQUIRE(ends.a.qp.post_send({.id = 7, .sges = {&of, 1}}));
  REQUIRE(ends.a.qp.post_send(
      {.id = 8, .opcode = Opcode::send_with_imm, .imm = 0xCAFE1234, .sges = {&of, 1}}));
  const Completion plain = ends.b.next();
  const Completion marked = ends.b.next();
  CHECK(plain.id == 1);
  CHECK(plain.status == Status::success);
  CHECK(plain.type == WorkType::recv);
  CHECK(plain.byte_count == length);
  CHECK(marked.id == 2);
  CHECK(marked.type == WorkType::recv_with_imm);
  CHECK(marked.flags == CompletionFlags::with_imm);
  CHECK(marked.imm_or_key == 0xCAFE1234);
  CHECK(marked.byte_count == length);
  CHECK(same(ends.a, 0, ends.b, 200000, length));
  CHECK(same(ends.a, 0, ends.b, 500000, length));
  CHECK(ends.a.next().id == 7);
  CHECK(ends.a.next().id == 8);
}

TEST_CASE("libfabric: WRITE and READ move the bytes that they name") {
  TwoEnds ends(GENERATE(from_range(kDevices)));
  const uint32_t length = GENERATE(1u, 4096u, 300000u);
  CAPTURE(ends.a.device.attributes().spec, length);
  fill(ends.a, 0, length, 5);
  const Sge of = ends.a.sge(0, length);
  REQUIRE(ends.a.qp.post_send(ends.a.request(1, Opcode::write, of, ends.b, 4000)));
  const Completion written = ends.a.next();
  CHECK(written.status == Status::success);
  CHECK(written.type == WorkType::write);
  CHECK(written.byte_count == length);
  if (ends.a.device.attributes().confirms) CHECK(same(ends.a, 0, ends.b, 4000, length));
  const Sge into = ends.a.sge(500000, length);
  REQUIRE(ends.a.qp.post_send(ends.a.request(2, Opcode::read, into, ends.b, 4000)));
  const Completion read = ends.a.next();
  CHECK(read.status == Status::success);
  CHECK(read.type == WorkType::read);
  CHECK(same(ends.a, 0, ends.a, 500000, length));
}

TEST_CASE("libfabric: WRITE with immediate data takes a receive and says its length") {
  TwoEnds ends(GENERATE(from_range(kDevices)));
  const uint32_t length = GENERATE(0u, 8u, 70000u);
  CAPTURE(ends.a.device.attributes().spec, length);
  fill(ends.a, 0, length, 9);
  ends.b.receive(40, 900000, 16);
  const Sge of = ends.a.sge(0, length);
  SendRequest request = ends.a.request(3, Opcode::write_with_imm, of, ends.b, 100000);
  request.imm = 77;
  REQUIRE(ends.a.qp.post_send(request));
  const Completion done = ends.b.next();
  CHECK(done.id == 40);
  CHECK(done.type == WorkType::recv_with_imm);
  CHECK(done.imm_or_key == 77);
  CHECK(done.byte_count == length);
  CHECK(done.flags == (CompletionFlags::with_imm | CompletionFlags::rdma_write));
  CHECK(same(ends.a, 0, ends.b, 100000, length));
  CHECK(ends.a.next().type == WorkType::write);
}

TEST_CASE("libfabric: atomics, where the provider has them, are atomic and return what was there") {
  TwoEnds ends(GENERATE(from_range(kDevices)));
  CAPTURE(ends.a.device.attributes().spec);
  const Sge into = ends.a.sge(64, 8);
  SendRequest add = ends.a.request(1, Opcode::fetch_add, into, ends.b, 128);
  add.compare_add = 5;
  if (!ends.a.device.attributes().has_atomics) {
    CHECK(ends.a.qp.post_send(add).code == Code::invalid_argument);
    return;
  }
  const auto word = [](End& end, size_t at) {
    uint64_t value = 0;
    std::memcpy(&value, end.memory.data() + at, sizeof value);
    return value;
  };
  for (uint64_t i = 0; i < 3; ++i) {
    REQUIRE(ends.a.qp.post_send(add));
    REQUIRE(ends.a.next().status == Status::success);
    CHECK(word(ends.a, 64) == 5 * i);
  }
  SendRequest swap = ends.a.request(2, Opcode::compare_swap, into, ends.b, 128);
  swap.compare_add = 15;
  swap.swap = 1000;
  for (const uint64_t before : {15u, 1000u}) {
    REQUIRE(ends.a.qp.post_send(swap));
    CHECK(ends.a.next().type == WorkType::compare_swap);
    CHECK(word(ends.a, 64) == before);
  }
  CHECK(word(ends.b, 128) == 1000);
}

// More than libfabric takes at once: the rest waits here, and completions keep their order. The
// last one is signaled: in one process shm looks into the peer's memory as long as a request is
// pending.
TEST_CASE(
    "libfabric: a full queue of requests completes in order, inline and unsignaled ones, too") {
  TwoEnds ends(GENERATE(from_range(kDevices)), {.max_send_wr = 1500, .max_recv_wr = 1500});
  CAPTURE(ends.a.device.attributes().spec);
  constexpr uint32_t kCount = 1500;
  for (uint32_t i = 0; i < kCount; ++i) ends.b.receive(i, 8 * i, 8);
  for (uint32_t i = 0; i < kCount; ++i) {
    uint64_t word = i;
    const Sge of{&word, sizeof word, {}};
    SendRequest request{.id = i, .flags = SendFlags::inline_data, .sges = {&of, 1}};
    if (i % 3 == 2) request.flags = request.flags | SendFlags::signaled;
    REQUIRE(ends.a.qp.post_send(request));
  }
  for (uint32_t i = 0; i < kCount; ++i) {
    const Completion got = ends.b.next();
    REQUIRE(got.id == i);
    uint64_t word = 0;
    std::memcpy(&word, ends.b.memory.data() + 8 * i, sizeof word);
    REQUIRE(word == i);
  }
  for (uint32_t i = 2; i < kCount; i += 3) REQUIRE(ends.a.next().id == i);
}

TEST_CASE("libfabric: a wrong lkey fails at home and flushes what is behind it") {
  TwoEnds ends(GENERATE(from_range(kDevices)));
  CAPTURE(ends.a.device.attributes().spec);
  // The ends have met by a message: libfabric's shm crashes where one closes while another meets
  // it.
  ends.b.receive(1, 0, 8);
  Sge of = ends.a.sge(0, 8);
  REQUIRE(ends.a.qp.post_send({.id = 0, .sges = {&of, 1}}));
  REQUIRE(ends.b.next().status == Status::success);
  REQUIRE(ends.a.next().status == Status::success);
  ends.a.receive(50, 0, 8);
  ends.a.receive(51, 8, 8);
  of.lkey.value += 1000;
  const Sge good = ends.a.sge(0, 8);
  const SendRequest both[] = {{.id = 1, .sges = {&of, 1}}, {.id = 2, .sges = {&good, 1}}};
  REQUIRE(ends.a.qp.post_send(both));
  const Completion failed = ends.a.next();
  CHECK(failed.id == 1);
  CHECK(failed.status == Status::local_protection_error);
  for (const uint64_t id : {2, 50, 51}) {
    const Completion flushed = ends.a.next();
    CHECK(flushed.id == id);
    CHECK(flushed.status == Status::flushed);
  }
  CHECK(ends.a.qp.state() == QpState::err);
  REQUIRE(ends.a.qp.post_send({.id = 3, .sges = {&good, 1}}));
  CHECK(ends.a.next().status == Status::flushed);
}

TEST_CASE("libfabric: a wrong rkey writes nothing, and the WRITE fails") {
  TwoEnds ends(GENERATE(from_range(kDevices)));
  CAPTURE(ends.a.device.attributes().spec);
  fill(ends.a, 0, 64, 1);
  const std::vector<char> before = ends.b.memory;
  const Sge of = ends.a.sge(0, 64);
  SendRequest request = ends.a.request(1, Opcode::write, of, ends.b, 0);
  request.rkey.value += 1000;
  REQUIRE(ends.a.qp.post_send(request));
  const Completion failed = ends.a.next();
  CHECK(failed.status != Status::success);
  CHECK(ends.b.memory == before);
}

TEST_CASE("libfabric: moving to ERR and destroying flushes and frees everything") {
  const std::string spec = GENERATE(from_range(kDevices));
  CAPTURE(spec);
  for (int round = 0; round < 5; ++round) {
    TwoEnds ends(spec);
    for (uint64_t id = 0; id < 10; ++id) ends.b.receive(id, 0, 8);
    REQUIRE(ends.b.qp.modify({.state = QpState::err}));
    for (uint64_t id = 0; id < 10; ++id) {
      const Completion flushed = ends.b.next();
      CHECK(flushed.id == id);
      CHECK(flushed.status == Status::flushed);
    }
    ends.a.receive(1, 0, 8);  // is outstanding when the queue pair goes
  }
}

TEST_CASE("libfabric: a child of fork() that leaves harms neither itself nor its parent") {
  auto ends = std::make_unique<TwoEnds>(GENERATE(from_range(kDevices)));
  CAPTURE(ends->a.device.attributes().spec);
  const pid_t child = ::fork();
  if (child == 0) {
    ends.reset();
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  fill(ends->a, 0, 8, 3);
  const Sge of = ends->a.sge(0, 8);
  REQUIRE(ends->a.qp.post_send(ends->a.request(1, Opcode::write, of, ends->b, 64)));
  CHECK(ends->a.next().status == Status::success);
  CHECK(same(ends->a, 0, ends->b, 64, 8));
}

TEST_CASE("libfabric: an armed queue wakes its descriptor") {
  TwoEnds ends("libfabric:tcp+ofi_rxm,node=127.0.0.1");
  ends.b.receive(1, 0, 8);
  const Sge of = ends.a.sge(0, 8);
  REQUIRE(ends.a.qp.post_send({.id = 2, .sges = {&of, 1}}));
  CHECK(ends.b.next().id == 1);  // wait() sleeps on the descriptor
  CHECK(ends.a.next().id == 2);
}

}  // namespace
}  // namespace weft::test
