// SPDX-License-Identifier: BSD-3-Clause
// The data path never allocates: malloc and operator new of this whole program are counted, from
// every thread, while ten thousand operations of each kind are posted and polled after a warm-up.
// program: own
#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/conformance/fixture.hpp"
#include "tests/support/sanitized.hpp"

namespace {
std::atomic<bool> counting{false};
std::atomic<uint64_t> allocations{0};

// Where the first few came from, for addr2line.
constexpr size_t kTraces = 4;
struct Trace {
  void* frames[12];
  int depth;
} traces[kTraces];

void note() noexcept {
  if (!counting.load(std::memory_order_relaxed)) return;
  const uint64_t index = allocations.fetch_add(1);
  if (index < kTraces) traces[index].depth = backtrace(traces[index].frames, 12);
}

void print_traces() {
  for (size_t i = 0; i < std::min<uint64_t>(allocations, kTraces); ++i) {
    std::printf("allocation %zu:\n", i + 1);
    std::fflush(stdout);
    backtrace_symbols_fd(traces[i].frames, traces[i].depth, STDOUT_FILENO);
  }
}
}  // namespace

// Sanitizers have their own malloc; there operator new alone is counted.
#if defined(WEFT_SANITIZED)
__attribute__((noinline)) void* operator new(size_t size) {
  note();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void* operator new(size_t size, const std::nothrow_t&) noexcept {
  note();
  return std::malloc(size);
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#else
extern "C" void* __libc_malloc(size_t size);
extern "C" void* __libc_calloc(size_t count, size_t size);
extern "C" void* __libc_realloc(void* memory, size_t size);
extern "C" void* malloc(size_t size) {  // operator new calls it
  note();
  return __libc_malloc(size);
}
extern "C" void* calloc(size_t count, size_t size) {
  note();
  return __libc_calloc(count, size);
}
extern "C" void* realloc(void* memory, size_t size) {
  note();
  return __libc_realloc(memory, size);
}
#endif

namespace weft {
namespace {

using namespace test;

struct Traffic {
  explicit Traffic(Wire wire)
      : p(wire, {.qp = {.max_send_wr = 64, .max_recv_wr = 64, .max_inline = 64}}) {}
  Pair p;
  Buffer near{p.a, 1 << 16};
  Buffer far{p.b, 1 << 16};
  uint64_t failed = 0;

  // Posts and polls `count` requests of one kind without a call that the test makes allocating.
  uint64_t run(Opcode opcode, uint32_t size, bool inlined, uint64_t count) {
    const Sge local = near.sge(0, size), in = far.sge(0, size);
    const bool sends = opcode == Opcode::send;
    uint64_t posted = 0, received = 0, done = 0;
    const Deadline deadline;
    while (done < count && !deadline.passed()) {
      while (sends && received < count && received - done < 64 &&
             p.qb.post_recv({.id = 1, .sges = {&in, 1}}))
        ++received;
      while (posted < count && posted - done < 64) {
        const SendFlags flags =
            inlined ? SendFlags::signaled | SendFlags::inline_data : SendFlags::signaled;
        if (!p.qa.post_send({.opcode = opcode,
                             .flags = flags,
                             .sges = {&local, 1},
                             .remote_address = far.address(),
                             .rkey = far.region.rkey()}))
          break;
        ++posted;
      }
      Completion c[64];
      const size_t n = p.a.cq.poll(c);
      for (size_t i = 0; i < n; ++i) failed += c[i].status != Status::success;
      done += n;
      (void)p.b.cq.poll(c);
    }
    return done;
  }
};

void no_allocation(Wire wire) {
  constexpr struct {
    Opcode opcode;
    uint32_t size;
    bool inlined;
  } kKinds[] = {{Opcode::write, 8, false},     {Opcode::write, 64, true},
                {Opcode::send, 64, false},     {Opcode::read, 64, false},
                {Opcode::fetch_add, 8, false}, {Opcode::write, 20'000, false},
                {Opcode::read, 20'000, false}, {Opcode::send, 5'000, false}};
  Traffic traffic(wire);
  (void)backtrace(traces[0].frames, 12);  // its first call allocates
  const uint64_t count = scaled(10'000);
  for (const auto& kind : kKinds) {
    if (kind.opcode == Opcode::fetch_add && !traffic.p.a.device.attributes().has_atomics) continue;
    const uint64_t share = kind.size > 64 ? count / 5 + 1 : count;
    traffic.run(kind.opcode, kind.size, kind.inlined, share / 10 + 200);  // warm-up
    allocations = 0;
    counting = true;
    const uint64_t done = traffic.run(kind.opcode, kind.size, kind.inlined, share);
    counting = false;
    INFO("opcode " << int(kind.opcode) << " size " << kind.size);
    CHECK(done == share);
    CHECK(traffic.failed == 0);
    // SRD's pool of answers grows when more are in progress than ever before (MessagePool).
    CHECK(allocations <= (is_srd(wire) ? 8 : 0));
    print_traces();
  }
}
WEFT_ON_EACH_WIRE_AND_SRD(no_allocation, "posting and polling allocate nothing")

TEST_CASE("the counter of allocations counts") {
  counting = true;
  allocations = 0;
  void* volatile memory = std::malloc(10);
  auto* volatile object = new int(5);
  counting = false;
  CHECK(allocations >= 1);
  std::free(memory);
  delete object;
}

}  // namespace
}  // namespace weft
