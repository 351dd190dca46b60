// SPDX-License-Identifier: BSD-3-Clause
// SRD in a process that has no more memory: engines whose allocations fail, some or all of them,
// for a while. The process survives, posted requests fail or complete, and when there is
// memory again all goes on.
// program: own
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/srd/srd_star.hpp"
#include "tests/virtual_time/pair.hpp"

namespace {
uint32_t failing_ppm = 0;  // of the allocations of engines
uint64_t refused = 0;
size_t held = 0, most_held = 0;  // bytes of engines, those of the network among them
weft::base::Random chance{1};
}  // namespace

// Before each block: its size, if an engine allocated it, or 0.
constexpr size_t kHead = alignof(std::max_align_t);

void* operator new(size_t size) {
  const bool engine = weft::test::EngineRuns::now;
  if (engine && chance.below(1'000'000) < failing_ppm) {
    ++refused;
    throw std::bad_alloc();
  }
  auto* const block = static_cast<std::byte*>(std::malloc(size + kHead));
  if (block == nullptr) throw std::bad_alloc();
  const size_t counted = engine ? size : 0;
  std::memcpy(block, &counted, sizeof counted);
  held += counted;
  if (held > most_held) most_held = held;
  return block + kHead;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
void operator delete(void* at) noexcept {
  if (at == nullptr) return;
  std::byte* const block = static_cast<std::byte*>(at) - kHead;
  size_t counted;
  std::memcpy(&counted, block, sizeof counted);
  held -= counted;
  std::free(block);
}
void operator delete[](void* at) noexcept { operator delete(at); }
void operator delete(void* at, size_t) noexcept { operator delete(at); }
void operator delete[](void* at, size_t) noexcept { operator delete(at); }

namespace weft::test {
namespace {

constexpr uint32_t kStations = 6, kRequests = 300, kReceives = 64;
constexpr uint32_t kMost = 40'000;
constexpr size_t kMostEach = 128u << 10;  // bytes
size_t most_bytes = 0;

struct Seen {
  uint64_t requests = 0, completions = 0, without_memory = 0, arrived = 0, sends = 0;
};

// All stations send all kinds of requests to each other; receives are scarce, SENDs ordered or not.
void ask(SrdWorld& world, base::Random& random, Seen& seen) {
  constexpr Opcode kOps[] = {Opcode::send,      Opcode::write,     Opcode::read,
                             Opcode::fetch_add, Opcode::write_add, Opcode::write_with_imm};
  SrdStation& from = world[random.below(kStations)];
  SrdStation& to = world[random.below(kStations)];
  SendRequest r;
  r.opcode = kOps[random.below(6)];
  const bool sends = r.opcode == Opcode::send || r.opcode == Opcode::write_with_imm;
  const uint32_t length =
      r.opcode == Opcode::fetch_add ? 8 : 8 * (1 + static_cast<uint32_t>(random.below(kMost / 8)));
  if (r.opcode == Opcode::send && random.below(2) == 0) r.flags = SendFlags::ordered;
  r.flags = r.flags | SendFlags::signaled;
  const Sge sge = from.sge(0, length);
  r.sges = {&sge, 1};
  r.element = Element::int64;
  r.remote_address = to.address_of(0);
  r.rkey = RKey{to.key()};
  const PostStatus status = from.post(to, r);
  if (status.accepted == 0) {
    REQUIRE(status.code == Code::no_memory);
    ++seen.without_memory;
    return;
  }
  ++seen.requests;
  seen.sends += sends;
}

void look(SrdWorld& world, Seen& seen) {
  for (auto& station : world.stations) {
    for (const Completion& c : station->sent()) {
      REQUIRE(c.status == Status::success);
      ++seen.completions;
    }
    for (const Completion& c : station->received()) {
      REQUIRE(c.status == Status::success);
      ++seen.arrived;
      REQUIRE(station->recv(c.id, station->sge(kMost, kMost)).accepted == 1);
    }
  }
}

void run(uint64_t seed, uint32_t ppm, const char* controller) {
  INFO("seed " << seed << ", " << ppm << " ppm, " << controller);
  base::Random random(seed);
  SrdOptions o;
  o.rails = 1 + static_cast<uint32_t>(random.below(2));
  o = controlled(controller, o);
  o.stations = kStations;
  o.seed = seed;
  o.config.path_counters = true;
  o.config.dead_peer_timeout = Duration::from_s(20);
  o.faults.loss = 5'000;
  o.memory = 2 * kMost;
  const size_t before = held;
  most_held = held;
  SrdWorld world(o);
  Seen seen;
  for (auto& station : world.stations)
    for (uint32_t i = 0; i < kReceives; ++i)
      REQUIRE(station->recv(i, station->sge(kMost, kMost)).accepted == 1);
  // When there is memory again at the end, no request is posted that could resume what waits for
  // it.
  const uint32_t phases = seed % 3 == 0 ? 1 : 5;
  for (uint32_t phase = 0; phase < phases; ++phase) {
    failing_ppm = phase % 2 == 0 ? ppm : 0;
    for (uint32_t i = 0; i < kRequests; ++i) {
      ask(world, random, seen);
      if (random.below(4) == 0) world.run_for(Duration::from_us(20));
      look(world, seen);
    }
    world.run_for(Duration::from_ms(3));
  }
  failing_ppm = 0;
  CHECK(world.run_until([&] {
    look(world, seen);
    return seen.completions == seen.requests;
  }));
  world.run_for(Duration::from_ms(10));
  look(world, seen);
  CHECK(seen.arrived == seen.sends);
  if (ppm == 1'000'000) CHECK(seen.without_memory > 0);
  // Six engines with five peers each: a flight to each of them, and what is queued or half there.
  most_bytes = std::max(most_bytes, most_held - before);
  CHECK(most_held - before < kStations * kMostEach);
}

TEST_CASE("engines continue after allocations failed for a while") {
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const uint32_t ppm : {100'000u, 500'000u, 1'000'000u}) {
      const size_t before = held;
      run(seed, ppm, seed % 2 == 0 ? "nscc" : "nscc+rccc");
      CHECK(held == before);  // failed allocations leave nothing behind
    }
  CHECK(refused > 10'000);
  std::printf("six engines: %.2f MB at most\n", double(most_bytes) / 1e6);
  CHECK(most_bytes > 100'000);  // something was counted
}

}  // namespace
}  // namespace weft::test
