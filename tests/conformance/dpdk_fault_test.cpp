// SPDX-License-Identifier: BSD-3-Clause
// The memory of a memif's rings is unmapped under the driver, as when the peer dies during a burst:
// only frames are lost.
#include <sys/mman.h>

#include <cinttypes>
#include <fstream>

#include "tests/conformance/fixture.hpp"

namespace weft {
namespace {

using namespace test;

struct DpdkFaultMapping {
  void* base;
  size_t size;
};

// All rings of memifs in this process.
std::vector<DpdkFaultMapping> rings() {
  std::vector<DpdkFaultMapping> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:memif_region") == line.npos) continue;
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2)
      found.push_back({reinterpret_cast<void*>(begin), end - begin});
  }
  return found;
}

void protect(int protection) {
  for (const DpdkFaultMapping& ring : rings())
    REQUIRE(mprotect(ring.base, ring.size, protection) == 0);
}

// `value`, and what stands behind it.
void write_word(const QueuePair& from, const Buffer& near, const Buffer& far, uint64_t value,
                uint32_t length = 8) {
  near.word(0) = value;
  const Sge word = near.sge(0, length);
  REQUIRE(from.post_send({.id = value,
                          .opcode = Opcode::write,
                          .sges = {&word, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
}

void rings_vanish(Wire wire) {
  Pair p(wire);
  constexpr uint32_t kPacket = 1024;
  const Buffer near(p.a, kPacket);
  const Buffer far(p.b, kPacket);
  const QueuePair out = p.a.queue_pair(), home = p.a.queue_pair();  // to ourselves
  connect(out, home);
  const Buffer here(p.a, 64);
  write_word(p.qa, near, far, 1, kPacket);
  REQUIRE(p.next(p.a).status == Status::success);
  REQUIRE_FALSE(rings().empty());
  const uint64_t free_a = p.a.counter("dpdk_buffers_free");
  const uint64_t free_b = p.b.counter("dpdk_buffers_free");
  REQUIRE(free_a > 0);
  for (uint64_t round = 2; round < 10; ++round) {
    protect(PROT_NONE);
    write_word(out, near, here, round);                                     // waits inside the port
    write_word(p.qa, near, far, round, kPacket);                            // its burst faults
    for (int i = 0; round % 2 == 0 && i < 10; ++i) p.a.poll(), p.b.poll();  // so do these
    protect(PROT_READ | PROT_WRITE);
    for (int i = 0; i < 2; ++i) REQUIRE(p.next(p.a).status == Status::success);  // sent again
    CHECK(here.word(0) == round);
    CHECK(far.word(0) == round);
  }
  CHECK(p.a.counter("dpdk_buffers_free") == free_a);
  CHECK(p.b.counter("dpdk_buffers_free") == free_b);
}
WEFT_ON_WIRE(rings_vanish, "a burst that faults loses frames, and no buffers", dpdk)

}  // namespace
}  // namespace weft
