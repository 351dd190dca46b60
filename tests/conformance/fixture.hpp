// SPDX-License-Identifier: BSD-3-Clause
// Shared by the tests of the whole stack: two sides opened from the device string of a wire
// (wires.hpp), queue pairs connected by modify(), registered buffers, and a loop that polls both
// sides until a condition holds. Uses the public API only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/wires.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/namespace.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/skip.hpp"
#include "weft/weft.hpp"

namespace weft::test {

// WEFT_TEST_LONG=1 (./dev test --long): also what takes minutes or gigabytes.
bool long_run();
// A seed from WEFT_TEST_SEED, or a new one; it is printed with how to replay.
uint64_t test_seed(std::string_view program);

// A small generator for test data (splitmix64), so that no test depends on the library's own.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(next() % bound); }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

void fill(std::span<std::byte> bytes, uint64_t seed);
bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

// An open device and its objects. `got` holds polled completions, oldest first.
struct Side {
  explicit Side(const std::string& device, uint32_t cq_capacity = 1024);
  // A further completion queue on the engine of this side.
  Result<CompletionQueue> queue(CompletionQueueOptions options) const;
  // A queue pair with this side's cq. Instead of RC, the usual type of the device.
  QueuePair queue_pair(QueuePairOptions options = {}) const;
  uint64_t counter(std::string_view counter_name) const;
  bool counts(std::string_view counter_name) const;  // whether the counter exists
  void poll();

  Device device;
  ProtectionDomain pd;
  uint32_t engine;  // of its objects
  CompletionQueue cq;
  std::vector<Completion> got;
};

// Page-aligned memory, registered with a side's domain.
class Buffer {
 public:
  Buffer(const Side& side, size_t size, Access access = Access::all)
      : Buffer(side.pd, size, access) {}
  Buffer(const ProtectionDomain& pd, size_t size, Access access);

  std::byte* at(size_t offset = 0) const { return memory_.get() + offset; }
  uint64_t address(size_t offset = 0) const { return reinterpret_cast<uint64_t>(at(offset)); }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {at(), size_}; }
  std::span<std::byte> bytes(size_t offset, size_t length) const { return {at(offset), length}; }
  Sge sge(size_t offset, size_t length) const {
    return region.sge(offset, static_cast<uint32_t>(length));
  }
  uint64_t& word(size_t offset) const { return *reinterpret_cast<uint64_t*>(at(offset)); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  size_t size_;
  std::unique_ptr<std::byte, Free> memory_;

 public:
  MemoryRegion region;
};

// How two queue pairs are connected. The timeout is short on ports with injected losses.
struct Walk {
  uint32_t mtu = 1024;  // or the device's active_mtu, if that is less
  Psn psn_a{0x123456};
  Psn psn_b{0x654321};
  uint8_t max_rd_atomic = 16;
  uint8_t timeout = 14;  // 67 ms
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 6;  // 60 us
  Access access = Access::all | Access::flush_global;
};

QueuePairAttributes to_init(const Walk& walk = {});
QueuePairAttributes to_rtr(const Walk& walk, const QueuePair& peer, Psn rq_psn);
QueuePairAttributes to_rts(const Walk& walk, Psn sq_psn);
// The attributes that apply to `qp`: UC has fewer than RC, XRC initiator and target half of them
// each.
QueuePairAttributes own_half(const QueuePair& qp, QueuePairAttributes change);
// Moves both to RTS; receives may have been posted in INIT.
void connect(const QueuePair& a, const QueuePair& b, const Walk& walk = {});

struct PairOptions {
  Walk walk;
  QueuePairOptions qp;
  uint32_t cq_capacity = 1024;
};

// Two sides of one wire and a connected queue pair on each.
struct Pair {
  explicit Pair(Wire wire, const PairOptions& options = {});
  ~Pair();             // prints the state if a REQUIRE has failed
  void print() const;  // the states and counters of both sides

  // New queue pairs on the open devices, connected as the first ones, for cases of many rounds: to
  // open devices takes longer than most rounds.
  void renew();

  // Polls both sides until `side` has `count` completions in `got`, and returns those.
  std::vector<Completion> wait(Side& side, size_t count);
  // The next completion of a side.
  Completion next(Side& side) { return wait(side, 1)[0]; }
  // Polls both sides for a while, so that packets in flight are handled.
  void poll_for(Duration time = Duration::from_ms(20));

  Side a, b;
  QueuePair qa, qb;

 private:
  Pair(const std::string& spec, const PairOptions& options);

  PairOptions options_;
};

// Polls `sides` until predicate() holds; false after half a minute.
template <class Predicate>
bool pump_until(std::initializer_list<Side*> sides, Predicate predicate);

// A time limit for tests that would hang.
class Deadline {
 public:
  explicit Deadline(Duration limit = Duration::from_s(30));
  bool passed() const;

 private:
  int64_t end_ns_;
};
int64_t clock_ns();

template <class Predicate>
bool pump_until(std::initializer_list<Side*> sides, Predicate predicate) {
  const Deadline deadline;
  while (!predicate()) {
    if (deadline.passed()) return false;
    for (Side* side : sides) side->poll();
  }
  return true;
}

// The kernel's rxe; the tests allow what it does otherwise than the specification says
// (tests/interop/README.md).
bool is_rxe(const Side& side);
// The kernel's siw (iWARP), likewise.
bool is_siw(const Side& side);

// Drains the asynchronous events of a device; true if `type` was among them.
bool saw_event(const Device& device, EventType type);

}  // namespace weft::test
