// SPDX-License-Identifier: BSD-3-Clause
// How soon progress comes to an application that does not poll, and what that costs. Two devices of
// one process with their progress threads, a thread at each:
//
//   post and sleep  one side posts WRITEs of 8 B one by one and then sleeps in poll() without a
//                   call into weft; the other side polls. Time from the end of the last post until
//                   the last flag is seen.
//   spin            both sides bounce 8 B as perftest's ib_write_lat does: post, poll for the own
//                   completion, then read memory without a call into weft until the answer is
//                   there. Half a round trip, and which share of a core the two threads were given.
//   idle            no call into weft: processor time of the whole process.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <ctime>
#include <vector>

#include "bench/perftest/both_ends.hpp"
#include "bench/perftest/command_line.hpp"

namespace {

using namespace weft;
using bench::need;
using bench::Side;

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void sleep_for(int ms) { (void)::poll(nullptr, 0, ms); }

uint64_t flag(const Side& side) { return __atomic_load_n(side.word(0), __ATOMIC_ACQUIRE); }

// `value` becomes the flag of `to`.
void write_flag(const Side& from, const Side& to, uint64_t value) {
  *from.word(8) = value;
  const Sge source = from.region.sge(64, 8);
  SendRequest request{.opcode = Opcode::write, .sges = {&source, 1}};
  request.flags = SendFlags::signaled | SendFlags::inline_data;
  request.remote_address = reinterpret_cast<uint64_t>(to.word(0));
  request.rkey = to.region.rkey();
  if (!from.qp.post_send(request)) std::exit(1);
}

// Waits for `count` completions and polls until the queue is empty.
void drain_completions(const Side& side, uint64_t count) {
  Completion done[16];
  for (uint64_t got = 0; got < count;) got += side.cq.poll(done);
  while (side.cq.poll(done) != 0) {
  }
}

void print(const char* what, std::vector<double>& us) {
  std::sort(us.begin(), us.end());
  const auto at = [&](double share) {
    return us[static_cast<size_t>(share * static_cast<double>(us.size() - 1))];
  };
  std::printf("%s: median %.2f us, 10 %% %.2f, 90 %% %.2f, 99 %% %.2f, max %.0f\n", what, at(0.5),
              at(0.1), at(0.9), at(0.99), at(1));
}

void post_and_sleep(const Side& a, const Side& b, uint64_t posts, int rounds) {
  std::vector<double> us;
  std::atomic<uint64_t> expected{0};
  std::atomic<double> posted{0}, seen{0};
  std::thread poller([&] {
    for (uint64_t want = 0;;) {
      if (const uint64_t now = expected; now != want) {
        want = now;
        if (want == UINT64_MAX) return;
        while (flag(b) != want) b.device.progress();
        seen = seconds_of(CLOCK_MONOTONIC);
      }
      b.device.progress();
    }
  });
  for (uint64_t value = flag(b); rounds-- > 0;) {
    value += posts;
    seen = 0;
    expected = value;
    for (uint64_t i = posts; i-- > 0;) write_flag(a, b, value - i);
    posted = seconds_of(CLOCK_MONOTONIC);
    sleep_for(3);
    while (seen == 0) sleep_for(1);
    us.push_back(std::max(0.0, seen - posted) * 1e6);
    drain_completions(a, posts);
  }
  expected = UINT64_MAX;
  poller.join();
  print(("post " + std::to_string(posts) + " and sleep").c_str(), us);
}

void spin(const Side& a, const Side& b, int rounds) {
  std::vector<double> us;
  double share[2] = {};
  const auto bounce = [&](const Side& self, const Side& other, bool first) {
    const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double before = wall;
    for (uint64_t i = 1; i <= static_cast<uint64_t>(rounds); ++i) {
      if (first) write_flag(self, other, i), drain_completions(self, 1);
      while (flag(self) != i) {
      }
      const double now = seconds_of(CLOCK_MONOTONIC);
      if (first) us.push_back((now - before) / 2 * 1e6);
      before = now;
      if (!first) write_flag(self, other, i), drain_completions(self, 1);
    }
    share[first] = (seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu) / (before - wall);
  };
  *a.word(0) = *b.word(0) = 0;
  std::thread answerer([&] { bounce(b, a, false); });
  bounce(a, b, true);
  answerer.join();
  print("spin on memory", us);
  std::printf("  of a core, the two spinning threads: %.1f %%, %.1f %%\n", 100 * share[1],
              100 * share[0]);
}

void idle(int ms) {
  sleep_for(20);
  const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  sleep_for(ms);
  std::printf("idle: %.4f %% of a core\n", 100 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) /
                                               (seconds_of(CLOCK_MONOTONIC) - wall));
}

}  // namespace

int main(int argc, char** argv) {
  std::string spec = "roce+shm:progress";
  int rounds = 5000;
  std::string only = "all";
  CLI::App app("weft_progress: how soon progress comes to an application that does not poll.");
  app.option_defaults()->always_capture_default();
  app.add_option("device", spec, "Device string of both sides");
  app.add_option("rounds", rounds, "Messages of each side")->check(CLI::Range(10, 10'000'000));
  app.add_option("only", only, "What to measure")
      ->check(CLI::IsMember({"all", "post", "spin", "idle"}));
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  Side a(need(Device::open(spec)), 0, 16), b(need(Device::open(spec)), 0, 16);
  bench::connect_pair(a, b);
  std::printf("%s\n", spec.c_str());
  const auto wanted = [&only](const char* what) { return only == "all" || only == what; };
  for (const uint64_t posts : {1, 4, 16, 64})
    if (wanted("post")) post_and_sleep(a, b, posts, rounds / 20 + 1);
  if (wanted("spin")) spin(a, b, rounds);
  if (wanted("idle")) idle(1000);
  return 0;
}
