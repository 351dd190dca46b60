// SPDX-License-Identifier: BSD-3-Clause
// The progress thread polls after packets have woken it: when it tries, how long, and what ends it.
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "lib/driver/cq_set.hpp"
#include "lib/driver/progress_thread.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

namespace weft::driver {
namespace {

using namespace std::chrono_literals;

// How many wake-ups sleep at once until the next spin begins, which is not ended.
uint32_t rest_of(SpinPolicy& policy) {
  uint32_t rest = 0;
  while (!policy.begins()) ++rest;
  return rest;
}

TEST_CASE(
    "spins that find nothing become rare, and one that finds packets makes them frequent again") {
  SpinPolicy policy;
  REQUIRE(policy.begins());
  for (uint32_t most = 1; most < 1024; most = 2 * most + 1) {
    policy.ended(false, false);
    CHECK(rest_of(policy) == most);
  }
  policy.ended(false, false);
  CHECK(rest_of(policy) == 1023);
  policy.ended(true, false);
  CHECK(rest_of(policy) == 0);
  policy.ended(false, false);
  CHECK(rest_of(policy) == 1);
}

TEST_CASE("where no core is free the progress thread hardly spins, packets or not") {
  SpinPolicy policy;
  REQUIRE(policy.begins());
  for (const uint32_t rest : {63u, 127u, 255u, 511u, 1023u, 2047u, 4095u, 8191u, 8191u}) {
    policy.ended(true, true);
    CHECK(rest_of(policy) == rest);
  }
  policy.ended(true, false);
  CHECK(rest_of(policy) == 0);
  policy.ended(true, true);
  CHECK(rest_of(policy) == 63);
}

// A progress thread whose port is an eventfd.
struct Spinner {
  int port = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::atomic<uint32_t> turns{0}, polls{0}, packets{1};
  std::atomic<bool> application_polls{false};
  ProgressThread thread;

  Spinner() {
    REQUIRE(thread.open());
    REQUIRE(thread.start({
        .turn =
            [this](std::vector<pollfd>& list, bool, bool) {
              uint64_t count;
              while (read(port, &count, sizeof count) > 0) {
              }
              list.push_back({port, POLLIN, 0});
              ++turns;
              return ThreadWork::Turn{false, kNoLimit, false};
            },
        .poll =
            [this] {
              if (application_polls) thread.on_poll();
              return polls++ < packets;
            },
        .end_sleep = [] {},
        .send_held_posts = [] {},
        .take_port_events = [] {},
    }));
    thread.activate();
    sleeps_after(0);
  }
  ~Spinner() {
    thread.stop();
    ::close(port);
  }
  void wake() {
    const uint32_t before = turns;
    signal_fd(port);
    sleeps_after(before);
  }
  // Until the thread has made another turn, and sleeps.
  void sleeps_after(uint32_t before) const {
    while (turns == before) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(5ms);
  }
};

bool one_core() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) < 2 ||
         sched_getscheduler(0) != SCHED_OTHER;
}

TEST_CASE("packets that come within 50 us are polled for, and others after a sleep") {
  if (one_core()) WEFT_SKIP("spin", "one core, or not SCHED_OTHER");
  Spinner s;
  s.packets = 50;
  s.wake();
  CHECK(s.polls > 50);  // and 50 us longer
  const uint32_t before = s.polls;
  CHECK(before < 1'000'000);
  std::this_thread::sleep_for(20ms);
  CHECK(s.polls == before);
}

TEST_CASE("after a spin that found nothing the next packets wake the thread from a sleep") {
  if (one_core()) WEFT_SKIP("spin", "one core, or not SCHED_OTHER");
  Spinner s;
  s.wake();
  const uint32_t before = s.polls;
  CHECK(before > 1);
  s.wake();
  CHECK(s.polls == before);
}

TEST_CASE("a spin ends when the application polls in a loop") {
  if (one_core()) WEFT_SKIP("spin", "one core, or not SCHED_OTHER");
  Spinner s;
  s.packets = 0;
  s.application_polls = true;
  s.wake();
  CHECK(s.polls <= 4);
}

}  // namespace
}  // namespace weft::driver
