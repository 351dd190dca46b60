// SPDX-License-Identifier: BSD-3-Clause
// Deregistration while peers write and read the memory, a hundred thousand times (a million with
// ./dev test --long): deregistered memory is not accessed any more, and queue pairs that use an
// invalid key fail with remote_access_error, or drop the packet (UC). Mainly for sanitizers.
// //= threat:A36
#include <atomic>
#include <thread>

#include "tests/conformance/fixture.hpp"

namespace weft::test {
namespace {

constexpr size_t kPlaces = 8, kSize = 256;
constexpr std::byte kMine{0xEE}, kTheirs{0x11};
constexpr Walk kWalk{.timeout = 17};  // patient: a busy machine is no error

// Where a peer may write for now: each place is a region of its own, for a few microseconds.
struct Places {
  explicit Places(const Side& side) : side(side), bytes(kPlaces * kSize, kMine) {}
  std::byte* at(size_t i) { return &bytes[i * kSize]; }

  // Deregisters the region at a place and registers another. Writes are allowed only while it is
  // registered.
  void renew(size_t i) {
    if (regions[i]) {
      keys[i].store(0, std::memory_order_relaxed);
      regions[i].reset();
      ++ended;
      written += std::find(at(i), at(i) + kSize, kTheirs) != at(i) + kSize;
      std::fill_n(at(i), kSize, kMine);
    }
    regions[i] = *side.pd.register_memory(at(i), kSize, Access::all);
    keys[i].store(regions[i]->rkey().value, std::memory_order_relaxed);
  }
  // One that ended before others were renewed: nothing has come since.
  void end(size_t i) {
    if (!regions[i]) return;
    regions[i].reset();
    ++ended;
    std::fill_n(at(i), kSize, kMine);
  }
  void look(size_t i) {
    if (!std::all_of(at(i), at(i) + kSize, [](std::byte b) { return b == kMine; })) ++violations;
  }

  const Side& side;
  std::vector<std::byte> bytes;
  std::optional<MemoryRegion> regions[kPlaces];
  std::atomic<uint32_t> keys[kPlaces] = {};
  uint64_t ended = 0, written = 0, violations = 0;
};

// WRITEs and READs to all places with the keys that they have or had a moment ago, on RC and UC.
struct Intruder {
  Intruder(const Side& here, const Side& there)
      : from(here),
        memory(here, 2 * kSize),
        rc(here.queue_pair()),
        rc_peer(there.queue_pair()),
        uc(here.queue_pair({.type = QpType::uc})),
        uc_peer(there.queue_pair({.type = QpType::uc})) {
    std::fill_n(memory.at(), kSize, kTheirs);
    connect(rc, rc_peer, kWalk);
    connect(uc, uc_peer, kWalk);
  }
  // One burst, and what came of it.
  void burst(Places& places, Random& random) {
    uint32_t posted = 0;
    for (int k = 0; k < 4; ++k) {
      const size_t i = random.below(kPlaces);
      const bool reads = random.one_in(3), reliable = reads || random.one_in(2);
      const Sge sge = memory.sge(reads ? kSize : 0, kSize);
      SendRequest r{.opcode = reads ? Opcode::read : Opcode::write,
                    .sges = {&sge, 1},
                    .remote_address = reinterpret_cast<uint64_t>(places.at(i)),
                    .rkey = RKey{places.keys[i].load(std::memory_order_relaxed)}};
      posted += (reliable ? rc : uc).post_send(r).accepted;
    }
    requests += posted;
    bool broken = false;
    while (posted != 0) {
      Completion c[8];
      const size_t n = from.cq.poll(c);
      for (size_t i = 0; i < n; ++i) {
        broken |= c[i].status != Status::success;
        const bool expected = c[i].status == Status::success || c[i].status == Status::flushed ||
                              c[i].status == Status::remote_access_error;
        if (!expected) odd = c[i].status;
      }
      posted -= static_cast<uint32_t>(n);
      if (n == 0) std::this_thread::yield();
    }
    if (!broken) return;
    ++deaths;
    for (const QueuePair& qp : {rc, rc_peer}) REQUIRE(qp.modify({.state = QpState::reset}));
    // Other numbers than before: the wire does not tell the old life's packets from the new one's.
    Walk walk = kWalk;
    walk.psn_a = Psn{random.below(1u << 24)};
    walk.psn_b = Psn{random.below(1u << 24)};
    connect(rc, rc_peer, walk);
  }

  const Side& from;
  Buffer memory;
  QueuePair rc, rc_peer, uc, uc_peer;
  uint64_t requests = 0, deaths = 0;
  Status odd = Status::success;  // what no request may end with here
};

void stress(Wire wire) {
  const std::string spec = device_string(wire) + ",throttle=0";
  const Side here(spec), there(spec);
  const uint64_t wanted = long_run() ? 1'000'000 : scaled(100'000);
  Random random(test_seed("dereg_stress_test"));
  Places places(there);
  std::atomic<bool> stop{false};
  Intruder intruder(here, there);
  std::thread traffic([&, seed = random.next()] {
    Random mine(seed);
    while (!stop) intruder.burst(places, mine);
  });
  while (places.ended < wanted) {
    const size_t i = random.below(kPlaces), j = random.below(kPlaces);
    places.end(i);
    if (j != i) places.renew(j);
    places.look(i);  // a while later
    places.renew(i);
  }
  stop = true;
  traffic.join();
  std::printf("%llu deregistrations, %llu requests, %llu queue pairs ended, %llu places written\n",
              static_cast<unsigned long long>(places.ended),
              static_cast<unsigned long long>(intruder.requests),
              static_cast<unsigned long long>(intruder.deaths),
              static_cast<unsigned long long>(places.written));
  CHECK(places.violations == 0);
  CHECK(name(intruder.odd) == "success");
  CHECK(intruder.deaths > 0);
  CHECK(places.written > 0);
  CHECK(there.counter("access_errors") >= intruder.deaths);
}
WEFT_ON_WIRE(stress, "regions go away under traffic, threat:A36", udp)
WEFT_ON_WIRE(stress, "regions go away under traffic, threat:A36", shm)

}  // namespace
}  // namespace weft::test
