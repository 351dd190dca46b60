// SPDX-License-Identifier: BSD-3-Clause
// Memory that changes under the device: unmapped, made read-only or truncated after registration,
// rewritten all the time, unmapped right after completion or deregistration; and the order in which
// a peer's writes become visible to a program that spins on them.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/conformance/fixture.hpp"
#include "tests/support/pages.hpp"

namespace weft {
namespace {

using namespace test;

// Threads that touch memory which the engine touches too, as peers of RDMA do, are no data races
// that a sanitizer should report: the hardware model is another machine's access.
#if defined(__clang__) || defined(__GNUC__)
#define WEFT_BY_ANOTHER_MACHINE __attribute__((no_sanitize("thread"), noinline))
#endif

struct Mapped {
  Mapped(const Side& side, size_t pages, int fd = -1)
      : memory(pages, fd), region(*side.pd.register_memory(memory.at, memory.size, Access::all)) {}
  Sge sge(size_t offset, uint32_t length) const { return region.sge(offset, length); }
  Pages memory;
  MemoryRegion region;
};

SendRequest remote(Opcode opcode, const Sge& local, const std::byte* address, RKey key) {
  return {.id = 1,
          .opcode = opcode,
          .sges = {&local, 1},
          .remote_address = reinterpret_cast<uint64_t>(address),
          .rkey = key};
}

// The status of a refused access; where the NAK may get lost, RC ends in retry_exceeded instead.
// SRD distinguishes unmapped memory from a violated right.
bool refusal(Wire wire, Status status) {
  if (is_srd(wire) && status == Status::remote_operation_error) return true;
  return status == Status::remote_access_error || (lossy(wire) && status == Status::retry_exceeded);
}

using Damage = std::function<void(const Mapped&)>;

// Operations of a on memory of b after `damage` was applied to that. Large ones may be carried by
// reference.
struct Accesses {
  explicit Accesses(Wire on) : wire(on), p(on, {.walk = {.mtu = 1024, .timeout = 12}}) {}

  void require_remote_error(Opcode opcode, uint32_t size, int fd, const Damage& damage) {
    if (p.qa.state() != QpState::rts || p.qb.state() != QpState::rts) p.renew();
    const Mapped far(p.b, 64, fd);
    const Sge local = near.sge(0, size);
    REQUIRE(p.qa.post_send(remote(opcode, local, far.memory.at, far.region.rkey())));
    REQUIRE(p.next(p.a).status == Status::success);
    damage(far);
    REQUIRE(p.qa.post_send(remote(opcode, local, far.memory.at, far.region.rkey())));
    const Completion c = p.next(p.a);
    INFO("opcode " << int(opcode) << " size " << size << ": " << name(c.status));
    CHECK(refusal(wire, c.status));
  }

  const Wire wire;
  Pair p;
  const Buffer near{p.a, 1 << 20};
};

constexpr struct {
  Opcode opcode;
  uint32_t size;
} kAccesses[] = {{Opcode::write, 8},      {Opcode::write, 200'000}, {Opcode::read, 8},
                 {Opcode::read, 200'000}, {Opcode::fetch_add, 8},   {Opcode::compare_swap, 8}};

void unmapped(Wire wire) {
  Accesses accesses(wire);
  for (const auto& access : kAccesses) {
    accesses.require_remote_error(access.opcode, access.size, -1, [](const Mapped& m) {
      REQUIRE(munmap(m.memory.at, m.memory.size) == 0);
      // The range stays reserved, so that the test sees the error and not another mapping.
      REQUIRE(mmap(m.memory.at, m.memory.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0) == m.memory.at);
    });
  }
}
WEFT_ON_OUR_WIRES(unmapped, "access to memory that its owner unmapped is an error (C-NAK-39)")
WEFT_ON_SRD_WIRES(unmapped, "access to memory that its owner unmapped is an error (C-NAK-39)")

void read_only(Wire wire) {
  Accesses accesses(wire);
  for (const auto& access : kAccesses) {
    if (access.opcode == Opcode::read) continue;
    accesses.require_remote_error(access.opcode, access.size, -1, [](const Mapped& m) {
      REQUIRE(mprotect(m.memory.at, m.memory.size, PROT_READ) == 0);
    });
  }
}
WEFT_ON_OUR_WIRES(read_only, "a write to memory made read-only is an error (C-NAK-39)")
WEFT_ON_SRD_WIRES(read_only, "a write to memory made read-only is an error (C-NAK-39)")

void truncated(Wire wire) {
  Accesses accesses(wire);
  for (const auto& access : kAccesses) {
    const int fd = make_file(64 * kPage);
    accesses.require_remote_error(access.opcode, access.size, fd,
                                  [fd](const Mapped&) { REQUIRE(ftruncate(fd, 0) == 0); });
    close(fd);
  }
}
WEFT_ON_OUR_WIRES(truncated, "access to a truncated file is an error (C-NAK-39)")
WEFT_ON_SRD_WIRES(truncated, "access to a truncated file is an error (C-NAK-39)")

void local_pages(Wire wire) {
  Pair p(wire, {.walk = {.timeout = 12}});
  for (const uint32_t size : {64u, 200'000u}) {
    const Mapped near(p.a, 64);
    const Buffer far(p.b, 1 << 20);
    const Sge local = near.sge(0, size);
    REQUIRE(mprotect(near.memory.at, near.memory.size, PROT_NONE) == 0);
    REQUIRE(p.qa.post_send(remote(Opcode::write, local, far.at(), far.region.rkey())));
    CHECK(p.next(p.a).status == Status::local_protection_error);
    p.renew();
  }
  for (const uint32_t size : {64u, 200'000u}) {
    const Buffer near(p.a, 1 << 20);
    const Mapped far(p.b, 64);
    const Sge out = near.sge(0, size), in = far.sge(0, size);
    REQUIRE(mprotect(far.memory.at, far.memory.size, PROT_READ) == 0);
    REQUIRE(p.qb.post_recv({.id = 2, .sges = {&in, 1}}));
    REQUIRE(p.qa.post_send({.id = 1, .sges = {&out, 1}}));
    CHECK(p.next(p.a).status == Status::remote_operation_error);
    CHECK(p.next(p.b).status == Status::local_protection_error);
    p.renew();
  }
}
WEFT_ON_OUR_PORTS(local_pages, "unmapped local memory fails its request (C-NAK-40)")

// Rewrites memory until stopped.
WEFT_BY_ANOTHER_MACHINE void rewrite(std::byte* one, std::byte* other, size_t size,
                                     const std::atomic<bool>& stop) {
  for (uint64_t value = 1; !stop.load(std::memory_order_relaxed); ++value) {
    for (std::byte* at : {one, other}) {
      auto* words = reinterpret_cast<volatile uint64_t*>(at);
      for (size_t i = 0; i < size / 8; ++i) words[i] = value;
    }
  }
}

void restless(Wire wire) {
  constexpr uint32_t kSize = 4096, kDepth = 32;
  const uint64_t rounds = scaled(long_run() ? 1'000'000 : 10'000);
  Pair p(wire, {.walk = {.mtu = 4096, .max_rd_atomic = 16}, .qp = {.max_send_wr = kDepth}});
  const Buffer near(p.a, 2 * kSize), far(p.b, 2 * kSize);
  std::atomic<bool> stop{false};
  const Sge source = near.sge(0, kSize), landing = near.sge(kSize, kSize);
  const SendRequest requests[] = {remote(Opcode::write, source, far.at(kSize), far.region.rkey()),
                                  remote(Opcode::read, landing, far.at(), far.region.rkey())};
  uint64_t posted = 0, done = 0, failed = 0;
  {
    std::jthread other([&] { rewrite(near.at(), far.at(), kSize, stop); });
    const Deadline deadline(Duration::from_s(300));
    while (done < 2 * rounds && failed == 0 && !deadline.passed()) {
      for (; posted < 2 * rounds && posted - done < kDepth; ++posted)
        if (!p.qa.post_send(requests[posted % 2])) break;
      p.a.poll();
      p.b.poll();
      for (const Completion& c : p.a.got) failed += c.status != Status::success;
      done += p.a.got.size();
      p.a.got.clear();
    }
    stop = true;
  }
  CHECK(failed == 0);
  CHECK(done == 2 * rounds);
  CHECK(p.qa.state() == QpState::rts);
  CHECK(p.qb.state() == QpState::rts);
  for (const Side* side : {&p.a, &p.b})
    if (side->counts("rx_icrc_error")) CHECK(side->counter("rx_icrc_error") == 0);
}
WEFT_ON_EACH_PORT_AND_SRD(restless,
                          "memory that changes all the time never breaks a checksum (C-ICRC-15)")

void gone_after_completion(Wire wire) {
  const uint64_t rounds = scaled(400);
  Pair p(wire, {.walk = {.timeout = 12}});
  const Buffer far(p.b, 65536);
  for (uint64_t i = 0; i < rounds; ++i) {
    const size_t size = i % 2 == 0 ? 64 : 65536;
    Pages pages(16);
    const MemoryRegion region = *p.a.pd.register_memory(pages.at, pages.size, Access::all);
    const Sge local = region.sge(0, static_cast<uint32_t>(size));
    const Opcode opcode = i % 4 < 2 ? Opcode::write : Opcode::read;
    REQUIRE(p.qa.post_send(remote(opcode, local, far.at(), far.region.rkey())));
    const Completion c = p.next(p.a);
    INFO("round " << i << ": " << name(c.status));
    REQUIRE(c.status == Status::success);
    // Unmapped, with a valid key: an access now fails its queue pair, or this process.
    REQUIRE(mprotect(pages.at, pages.size, PROT_NONE) == 0);
    if (i % 8 == 0) p.poll_for(Duration::from_ms(1));
  }
  p.poll_for();
  CHECK(p.qa.state() == QpState::rts);
  CHECK(p.qb.state() == QpState::rts);
  CHECK(p.a.got.empty());
}
WEFT_ON_EACH_WIRE_AND_SRD(gone_after_completion,
                          "memory is not touched after its completion (C-DUP-24)")

void gone_after_deregistration(Wire wire) {
  const uint64_t rounds = scaled(long_run() ? 80 : 16);
  constexpr size_t kSize = 256 * 1024;
  Pair p(wire, {.walk = {.timeout = 12}});
  const Buffer near(p.a, kSize);
  for (uint64_t i = 0; i < rounds; ++i) {
    if (i != 0) p.renew();
    fill(near.bytes(), i);
    auto far = std::make_unique<Mapped>(p.b, kSize / kPage);
    const Sge local = near.sge(0, kSize);
    SendRequest request = remote(Opcode::write, local, far->memory.at, far->region.rkey());
    REQUIRE(p.qa.post_send(request));  // so that the sides have exchanged packets before the rest
    REQUIRE(p.next(p.a).status == Status::success);
    for (request.id = 0; request.id < 8; ++request.id) REQUIRE(p.qa.post_send(request));
    p.poll_for(Duration::from_us(static_cast<int64_t>(800 * i / rounds)));  // in the middle
    far->region = MemoryRegion{};
    std::memset(far->memory.at, 0x5A, kSize);  // no access of the device from here on
    p.poll_for(Duration::from_ms(10));
    const auto untouched = [](std::byte byte) { return byte == std::byte{0x5A}; };
    REQUIRE(std::all_of(far->memory.at, far->memory.at + kSize, untouched));
    far->memory.unmap(0, kSize / kPage);
    bool refused = false;
    for (const Completion& c : p.wait(p.a, 8)) {
      INFO("round " << i << " request " << c.id << ": " << name(c.status));
      refused = refused || refusal(wire, c.status);
      CHECK(
          (c.status == Status::success || refusal(wire, c.status) || c.status == Status::flushed));
    }
    const bool as_expected = refused || p.qa.state() == QpState::rts;
    if (!as_expected) p.print();
    CHECK(as_expected);
  }
}
WEFT_ON_EACH_WIRE_AND_SRD(gone_after_deregistration,
                          "memory is not touched after deregistration (C-NAK-39)")

// Spins until the last byte of [at, at + size) is `round`; then counts bytes that are not.
WEFT_BY_ANOTHER_MACHINE size_t behind(const std::byte* at, size_t size, uint8_t round,
                                      const std::atomic<bool>& stop) {
  const auto* last = reinterpret_cast<const uint8_t*>(at + size - 1);
  while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != round)
    if (stop.load(std::memory_order_relaxed)) return 0;
  size_t late = 0;
  for (size_t i = 0; i < size; ++i)
    late += reinterpret_cast<const volatile uint8_t*>(at)[i] != round;
  return late;
}

void last_byte(Wire wire) {
  const uint64_t rounds = scaled(1000);
  Random random(test_seed("memory_test"));
  Pair p(wire);
  const Buffer near(p.a, 20'000), far(p.b, 20'000), flag(p.b, 8);
  std::atomic<uint64_t> go{0}, seen{0};
  std::atomic<size_t> size{0}, at{0}, late{0};
  std::atomic<bool> stop{false}, by_flag{false};
  std::jthread spinner([&] {
    for (uint64_t round = 1; round <= rounds; ++round) {
      while (go.load() < round)
        if (stop.load()) return;
      const auto value = static_cast<uint8_t>(round % 255 + 1);
      if (by_flag) late += behind(flag.at(), 1, value, stop);
      late += behind(far.at(at), size, value, stop);
      seen = round;
    }
  });
  for (uint64_t round = 1; round <= rounds && seen + 1 == round; ++round) {
    size = 1 + random.below(round % 4 == 0 ? 15'000 : 100);
    at = random.below(64);
    by_flag = random.one_in(2);
    std::memset(near.at(), static_cast<int>(round % 255 + 1), near.size());
    const Sge data = near.sge(0, size), one = near.sge(0, 1);
    SendRequest list[] = {remote(Opcode::write, data, far.at(at), far.region.rkey()),
                          remote(Opcode::write, one, flag.at(), flag.region.rkey())};
    go = round;
    if (!p.qa.post_send({list, by_flag ? 2u : 1u})) break;
    pump_until({&p.a, &p.b}, [&] { return seen == round; });
    // The next round may not begin before this one's requests are complete.
    const size_t expected = by_flag ? 2 : 1;
    pump_until({&p.a, &p.b}, [&] { return p.a.got.size() >= expected; });
    p.a.got.clear();
  }
  stop = true;
  spinner.join();
  CHECK(seen == rounds);
  CHECK(late == 0);
}
WEFT_ON_EACH_WIRE(last_byte, "neither the last byte nor a flag is seen before the data (C-OPS-81)")

}  // namespace
}  // namespace weft
