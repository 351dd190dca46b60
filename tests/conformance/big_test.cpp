// SPDX-License-Identifier: BSD-3-Clause
// Large things: a READ of 2^31 - 1 bytes at the smallest MTU, a thousand queue pairs in one process
// and between two.
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/peer_process.hpp"

namespace weft {
namespace {

using namespace test;

struct Mapping {
  explicit Mapping(size_t bytes)
      : size(bytes),
        at(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(at != MAP_FAILED);
  }
  ~Mapping() { munmap(at, size); }
  uint64_t* words() const { return static_cast<uint64_t*>(at); }
  size_t size;
  void* at;
};

// More than 2^23 packets when long: the READ must be split, and PSNs wrap.
void long_read(Wire wire) {
  Pair p(wire, {.walk = {.mtu = 256, .psn_a = {0xFFFF00}}});
  const size_t size = std::min<size_t>(long_run() ? (size_t{1} << 31) - 1 : scaled(64) << 20,
                                       p.a.device.attributes().max_message);
  const Mapping near(size), far(size);
  for (size_t i = 0; i < size / 8; ++i) far.words()[i] = i * 0x9E3779B97F4A7C15u;
  const MemoryRegion to = *p.a.pd.register_memory(near.at, size, Access::local_write);
  const MemoryRegion from = *p.b.pd.register_memory(far.at, size, Access::remote_read);
  const Sge whole = to.sge(0, static_cast<uint32_t>(size));
  const int64_t begin = clock_ns();
  REQUIRE(p.qa.post_send({.id = 1,
                          .opcode = Opcode::read,
                          .sges = {&whole, 1},
                          .remote_address = reinterpret_cast<uint64_t>(far.at),
                          .rkey = from.rkey()}));
  const Deadline deadline(Duration::from_s(500));
  while (p.a.got.empty() && !deadline.passed()) {
    p.a.poll();
    p.b.poll();
  }
  REQUIRE(p.a.got.size() == 1);
  CHECK(p.a.got[0].status == Status::success);
  CHECK(p.a.got[0].byte_count == size);
  CHECK(std::memcmp(near.at, far.at, size) == 0);
  const double seconds = static_cast<double>(clock_ns() - begin) / 1e9;
  std::printf("%zu bytes in packets of 256: %.2f GB/s\n", size,
              static_cast<double>(size) / seconds / 1e9);
}
WEFT_ON_EACH_PORT_AND_SRD(long_read,
                          "one READ of up to 2^31 - 1 bytes at MTU 256 (C-OPS-79 C-PSN-22)")

void thousand_pairs(Wire wire) {
  constexpr size_t kPairs = 1000;
  const std::string spec = device_string(wire);
  Side a(spec, 8192), b(spec, 8192);
  const Buffer near(a, kPairs * 64), far(b, kPairs * 64), back(a, kPairs * 64);
  std::vector<QueuePair> left, right;
  for (size_t i = 0; i < kPairs; ++i) {
    left.push_back(a.queue_pair({.max_send_wr = 4, .max_recv_wr = 4}));
    right.push_back(b.queue_pair({.max_send_wr = 4, .max_recv_wr = 4}));
    connect(left[i], right[i]);
  }
  for (uint64_t round = 0; round < 3; ++round) {
    fill(near.bytes(), round);
    for (size_t i = 0; i < kPairs; ++i) {
      const Sge out = near.sge(i * 64, 64), in = back.sge(i * 64, 64);
      SendRequest list[2];
      list[0] = {.id = i,
                 .opcode = Opcode::write,
                 .sges = {&out, 1},
                 .remote_address = far.address(i * 64),
                 .rkey = far.region.rkey()};
      list[1] = list[0];
      list[1].opcode = Opcode::read;
      list[1].sges = {&in, 1};
      REQUIRE(left[i].post_send(list));
    }
    REQUIRE(pump_until({&a, &b}, [&] { return a.got.size() == 2 * kPairs; }));
    for (const Completion& c : a.got) REQUIRE(c.status == Status::success);
    a.got.clear();
    CHECK(equal(near.bytes(), far.bytes()));
    CHECK(equal(near.bytes(), back.bytes()));
  }
}
WEFT_ON_EACH_PORT(thousand_pairs, "a thousand queue pairs in one process")
WEFT_ON_LOSSY_PORTS(thousand_pairs, "a thousand queue pairs in one process under faults")

void thousand_between(Wire wire) {
  const std::string device = device_string(wire);
  PeerProcess server(device, 1), client(device, 1);
  client.go(0, "127.0.0.1:" + std::to_string(server.ports[0]), 1000);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  client.stop();
  const PeerProcess::Report r = client.report(0);
  CHECK(r.status == "success");
  CHECK(r.rounds > 0);
  std::printf("%llu verified rounds over 1000 queue pairs\n",
              static_cast<unsigned long long>(r.rounds));
  CHECK(client.join() == 0);
  server.stop();
  CHECK(server.join() == 0);
}
WEFT_ON_EACH_PORT_AND_SRD(thousand_between, "a thousand queue pairs between two processes")

}  // namespace
}  // namespace weft
