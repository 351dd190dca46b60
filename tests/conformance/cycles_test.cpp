// SPDX-License-Identifier: BSD-3-Clause
// A hundred thousand times: a completion queue, a domain, a region, a window and a connected queue
// pair on each side, traffic that is verified, and all of it destroyed. Then the process has the
// memory, the descriptors and the threads that it had after the first thousands.
// ctest: serial
#include <malloc.h>

#include <filesystem>
#include <fstream>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/steps.hpp"

namespace weft {
namespace {

using namespace test;

struct Footprint {
  size_t allocated = 0;  // bytes that malloc has given out
  size_t resident = 0;   // bytes of the process in memory
  size_t descriptors = 0, threads = 0;
};

Footprint footprint() {
  const struct mallinfo2 m = mallinfo2();
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return {m.uordblks + m.hblkhd, resident * 4096, entries_of_process("fd"),
          entries_of_process("task")};
}

// What outlives the cycles: devices and memory. What hangs on it does not.
struct Ends {
  explicit Ends(const std::string& spec) : a(spec), b(spec) {
    near.resize(kSize);
    far.resize(kSize);
  }
  static constexpr size_t kSize = 8192;
  Side a, b;
  std::vector<std::byte> near, far;
};

struct End {
  End(const Side& side, std::vector<std::byte>& bytes)
      : cq(*side.queue({.capacity = 64})),
        pd(*side.device.protection_domain()),
        memory(*pd.register_memory(bytes.data(), bytes.size(), Access::all)),
        qp(*pd.queue_pair({.type = side.device.attributes().qp_type,
                           .send_cq = cq,
                           .recv_cq = cq,
                           .max_send_wr = 16,
                           .max_recv_wr = 16})) {}
  CompletionQueue cq;
  ProtectionDomain pd;
  MemoryRegion memory;
  QueuePair qp;
};

// The id of the next completion if that is success, else 0.
uint64_t completed(const End& end, const End& other) {
  const Deadline deadline;
  Completion c;
  while (end.cq.poll({&c, 1}) == 0) {
    if (deadline.passed()) return 0;
    other.qp.device().progress();
  }
  return c.status == Status::success ? c.id : 0;
}

// The last of every seven rounds ends in the middle of what is on its way.
bool cycle(Ends& ends, uint64_t round) {
  const End a(ends.a, ends.near), b(ends.b, ends.far);
  connect(a.qp, b.qp);
  std::memset(ends.near.data(), static_cast<int>(round & 0xFF), 4096);
  const Sge out = a.memory.sge(0, 64), in = b.memory.sge(0, 64), large = a.memory.sge(0, 4096),
            back = a.memory.sge(4096, 4096);
  SendRequest write{.id = 2, .opcode = Opcode::write, .sges = {&large, 1}};
  write.remote_address = reinterpret_cast<uint64_t>(ends.far.data() + 4096);
  write.rkey = b.memory.rkey();
  SendRequest read = write;
  read.id = 3;
  read.opcode = Opcode::read;
  read.sges = {&back, 1};
  if (!b.qp.post_recv({.id = 9, .sges = {&in, 1}}) ||
      !a.qp.post_send({.id = 1, .sges = {&out, 1}}) || !a.qp.post_send(write))
    return false;
  if (round % 7 == 6) return true;
  if (completed(b, a) != 9) return false;
  if (const uint64_t first = completed(a, b); first + completed(a, b) != 1 + 2)
    return false;  // SRD
  if (!a.qp.post_send(read) || completed(a, b) != 3) return false;
  return std::memcmp(ends.near.data() + 4096, ends.near.data(), 4096) == 0;
}

void cycles(Wire wire) {
  const bool quick = wire == Wire::udp || wire == Wire::shm;
  const uint64_t count = scaled(quick || long_run() ? 100'000 : 10'000);
  Ends ends(device_string(wire));
  uint64_t failed = 0;
  for (uint64_t round = 0; round < count / 10 && failed == 0; ++round)
    failed += cycle(ends, round) ? 0 : 1;
  REQUIRE(failed == 0);
  const Footprint before = footprint();
  const int64_t begin = clock_ns();
  for (uint64_t round = count / 10; round < count && failed == 0; ++round)
    failed += cycle(ends, round) ? 0 : 1;
  CHECK(failed == 0);
  const Footprint after = footprint();
  std::printf(
      "%.0f cycles a second; allocated %zu -> %zu bytes, resident %zu -> %zu\n",
      static_cast<double>(count - count / 10) * 1e9 / static_cast<double>(clock_ns() - begin),
      before.allocated, after.allocated, before.resident, after.resident);
  CHECK(after.descriptors == before.descriptors);
  CHECK(after.threads == before.threads);
  // A leak of four bytes a cycle is more than this, and on udp and shm one of a byte (at scale 1).
  CHECK(after.allocated <= before.allocated + 32'768);
  if (quick && test_scale() == 1)  // DPDK touches its pools one after the other
    CHECK(after.resident <= before.resident + (size_t{2} << 20));
}
WEFT_ON_OUR_PORTS(cycles, "cycles of create, traffic and destroy leak nothing (C-STATE-67)")
WEFT_ON_SRD_PORTS(cycles, "cycles of create, traffic and destroy leak nothing (C-STATE-67)")

}  // namespace
}  // namespace weft
