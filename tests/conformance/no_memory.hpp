// SPDX-License-Identifier: BSD-3-Clause
// Scenarios in which each allocation fails once. A scenario is a function that makes public calls
// until one fails, and returns its code. It does not allocate itself, so it uses no test macro and
// no std::string: an exception in it comes from the library.
#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <optional>

#include "tests/conformance/fixture.hpp"
#include "tests/support/failing_memory.hpp"

namespace weft::test {

using Scenario = Code (*)();

// The first failure ends the scenario.
#define WEFT_GIVE(name, call)                            \
  auto name##_result = (call);                           \
  if (!name##_result) return name##_result.error().code; \
  const auto& name = *name##_result
#define WEFT_OK(call) \
  if (const auto done_ = (call); !done_) return done_.error().code
#define WEFT_POST(call) \
  if (const PostStatus posted_ = (call); !posted_) return posted_.code
#define WEFT_DONE(call) \
  if (const Code code_ = (call); code_ != Code::ok) return code_

// A device with what a queue pair needs, and 64 KiB.
struct End {
  Code open(std::string_view spec, Access access = Access::all) {
    Result<Device> opened = Device::open(spec);
    if (!opened) return opened.error().code;
    device.emplace(*opened);
    Result<ProtectionDomain> domain = device->protection_domain();
    if (!domain) return domain.error().code;
    pd.emplace(*domain);
    Result<CompletionQueue> queue = device->completion_queue({.capacity = 64});
    if (!queue) return queue.error().code;
    cq = *queue;
    Result<MemoryRegion> registered = pd->register_memory(bytes.data(), bytes.size(), access);
    if (!registered) return registered.error().code;
    region = *registered;
    return Code::ok;
  }
  Result<QueuePair> queue_pair(QueuePairOptions options = {}) const {
    options.send_cq = options.recv_cq = cq;
    options.max_send_wr = options.max_recv_wr = 16;
    return pd->queue_pair(options);
  }
  uint64_t address(size_t offset) const {
    return reinterpret_cast<uint64_t>(bytes.data() + offset);
  }

  std::optional<Device> device;
  std::optional<ProtectionDomain> pd;
  CompletionQueue cq;
  alignas(64) std::array<std::byte, 1u << 16> bytes{};
  MemoryRegion region;
  // Completions since the last wait().
  uint32_t sends = 0, receives = 0;

  Code poll() {
    Completion c[16];
    const size_t n = cq.poll(c);
    for (size_t i = 0; i < n; ++i) {
      if (c[i].status != Status::success) return Code::io_error;
      const bool receive = c[i].type == WorkType::recv || c[i].type == WorkType::recv_with_imm;
      ++(receive ? receives : sends);
    }
    return Code::ok;
  }
};

// A shortage ends when the scenario has waited for a while: what heals by itself heals then.
class Patience {
 public:
  bool spent() {
    const int64_t waited = clock_ns() - begin_;
    if (waited > 5'000'000) memory::lasting = false;
    return waited > 20'000'000'000;
  }

 private:
  int64_t begin_ = clock_ns();
};

// Polls until `done`, which may repeat what can be lost.
template <class Done>
Code pump(End& a, End& b, Done done) {
  Patience patience;
  while (!done()) {
    WEFT_DONE(a.poll());
    WEFT_DONE(b.poll());
    if (patience.spent()) return Code::timed_out;
  }
  return Code::ok;
}
inline Code wait(End& a, End& b, uint32_t sends, uint32_t receives) {
  WEFT_DONE(pump(a, b, [&] { return a.sends >= sends && b.receives >= receives; }));
  a.sends = b.receives = 0;
  return Code::ok;
}

inline Code walk(const QueuePair& a, const QueuePair& b, const Walk& w) {
  WEFT_OK(a.modify(to_init(w)));
  WEFT_OK(b.modify(to_init(w)));
  WEFT_OK(a.modify(own_half(a, to_rtr(w, b, w.psn_b))));
  WEFT_OK(b.modify(own_half(b, to_rtr(w, a, w.psn_a))));
  WEFT_OK(a.modify(own_half(a, to_rts(w, w.psn_a))));
  WEFT_OK(b.modify(own_half(b, to_rts(w, w.psn_b))));
  return Code::ok;
}

// A device string with the name of this process in it, where the port needs one.
inline std::string_view spec_of(const char* format) {
  static char text[256];
  const int size = std::snprintf(text, sizeof text, format, static_cast<int>(::getpid()));
  return {text, static_cast<size_t>(size)};
}

struct Attempt {
  Code code = Code::ok;
  bool escaped = false;  // std::bad_alloc came out of the library
  bool refused = false;
  int64_t left = 0;  // blocks
};

inline Attempt attempt(Scenario scenario, uint64_t ordinal, bool lasting) {
  Attempt a;
  const int64_t before = memory::outstanding;
  memory::lasting = lasting;
  memory::fails_at = ordinal;
  memory::asked = memory::refused = 0;
  memory::armed = true;
  try {
    a.code = scenario();
  } catch (const std::bad_alloc&) {
    a.escaped = true;
  }
  memory::armed = false;
  a.refused = memory::refused != 0;
  a.left = memory::outstanding - before;
  return a;
}

// The first allocation that fails is each of those that the scenario makes, in turn; one of three,
// at random, unless the run is long. What a run
// leaves behind is a leak if it leaves something each time: the first one may fill a cache.
inline void run_out_everywhere(const char* name, Scenario scenario) {
  constexpr uint64_t kNever = ~uint64_t{0};
  INFO("scenario: " << name);
  for (int i = 0; i < 2; ++i) REQUIRE(attempt(scenario, kNever, false).code == Code::ok);
  const uint64_t stride = long_run() ? 1 : static_cast<uint64_t>(std::max(3.0, 0.7 / test_scale()));
  uint64_t survived = 0, ordinal = 0;
  Random random(test_seed("no_memory"));
  for (const bool lasting : {false, true}) {
    for (ordinal = random.below(stride);; ordinal += stride) {
      INFO("from allocation " << ordinal << (lasting ? " on" : ""));
      Attempt a = attempt(scenario, ordinal, lasting);
      for (int i = 0; i < 2 && a.left > 0; ++i) a = attempt(scenario, ordinal, lasting);
      if (a.left > 0 || a.escaped || (a.code != Code::ok && a.code != Code::no_memory)) {
        CHECK(a.left <= 0);
        CHECK_FALSE(a.escaped);
        CHECK(weft::name(a.code) == (a.code == Code::ok ? "ok" : "no_memory"));
      }
      survived += a.refused && a.code == Code::ok;
      if (a.refused) continue;
      CHECK(a.code == Code::ok);
      break;
    }
  }
  std::printf("%s: %llu allocations, %llu of those that failed did no harm\n", name,
              static_cast<unsigned long long>(ordinal), static_cast<unsigned long long>(survived));
  std::fflush(stdout);
  CHECK(ordinal > 5);
}

#define WEFT_RUN_OUT(scenario)                                     \
  TEST_CASE("out of memory anywhere: " #scenario ", threat:A28") { \
    run_out_everywhere(#scenario, scenario);                       \
  }

}  // namespace weft::test
