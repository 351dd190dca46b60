// SPDX-License-Identifier: BSD-3-Clause
// Do engines on several cores share anything? Each thread owns two devices, or with engines=N in
// the device string an engine of each of two, both ends of a stream of 8 byte WRITEs, and is pinned
// to a core. The rate of one alone and that of all at the same time are measured in turns, in
// WRITEs per second of processor time (a line that two cores fight for costs processor time; other
// programs on the machine do not) and of the clock on the wall.
//
//   weft_cores roce+shm:cores% [ENGINES [SECONDS [SIZE]]]     each % becomes the number of the
//                                                             engine
//   weft_cores roce+udp:lo,engines=2 2                        two engines of one device
//
// One line of output: the rates of one, of all, and their ratio, which is ENGINES at best.
#include <pthread.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <barrier>
#include <ctime>
#include <memory>
#include <vector>

#include "bench/perftest/both_ends.hpp"
#include "bench/perftest/command_line.hpp"

namespace {

using namespace weft;
using bench::Side;

constexpr int kRounds = 7;
constexpr uint32_t kDepth = 64;

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Rate {
  double per_cpu_second = 0, per_second = 0;
};

// Streams from `a` to `b` for so long.
Rate stream(Side& a, Side& b, uint32_t size, double seconds) {
  const Sge source = a.region.sge(0, size);
  SendRequest request{.opcode = Opcode::write, .sges = {&source, 1}};
  request.remote_address = reinterpret_cast<uint64_t>(b.word(0));
  request.rkey = b.region.rkey();
  Completion done[kDepth];
  uint64_t written = 0;
  uint32_t open = 0;
  const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  double now = wall;
  for (uint32_t turn = 1; now < wall + seconds; ++turn) {
    for (; open < kDepth; ++open)
      if (!a.qp.post_send(request)) std::exit(1);
    (void)b.cq.poll(done);  // runs its engine
    const auto got = static_cast<uint32_t>(a.cq.poll(done));
    open -= got;
    written += got;
    if (turn % 64 == 0) now = seconds_of(CLOCK_MONOTONIC);
  }
  while (open != 0) {
    (void)b.cq.poll(done);
    open -= static_cast<uint32_t>(a.cq.poll(done));
  }
  const auto count = static_cast<double>(written);
  return {count / (seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu), count / (now - wall)};
}

std::string numbered(std::string spec, int number) {
  for (size_t at; (at = spec.find('%')) != spec.npos;) spec.replace(at, 1, std::to_string(number));
  return spec;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
    std::fprintf(stderr, "weft_cores: there is no core %d to be had: not pinned\n", core);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What each round saw: of engine 0 alone, and the sum of all.
struct Seen {
  std::vector<double> one_cpu, one_wall, all_cpu, all_wall, ratio;
};

Seen measure(const std::string& spec, int engines, double seconds, uint32_t size) {
  Seen seen;
  std::vector<Rate> rates(static_cast<size_t>(engines));
  std::barrier together(engines);
  std::vector<Device> shared;  // both ends, if the engines are those of one device
  while (spec.find(",engines=") != spec.npos && shared.size() < 2)
    shared.push_back(bench::need(Device::open(spec)));
  const auto run = [&](int number) {
    pin_to(number);
    const std::string mine = numbered(spec, number);
    const size_t words = size / 8 + 1;
    const auto end = [&](size_t which) {
      return shared.empty() ? Side(mine, words)
                            : Side(shared[which], static_cast<uint32_t>(number), words);
    };
    Side a = end(0), b = end(1);
    bench::connect_pair(a, b);
    (void)stream(a, b, size, seconds / 2);  // warm
    for (int round = 0; round < kRounds; ++round) {
      together.arrive_and_wait();
      const Rate alone = number == 0 ? stream(a, b, size, seconds) : Rate{};
      together.arrive_and_wait();
      rates[static_cast<size_t>(number)] = stream(a, b, size, seconds);
      together.arrive_and_wait();
      if (number != 0) continue;
      Rate all;
      for (const Rate& rate : rates) {
        all.per_cpu_second += rate.per_cpu_second;
        all.per_second += rate.per_second;
      }
      seen.one_cpu.push_back(alone.per_cpu_second);
      seen.one_wall.push_back(alone.per_second);
      seen.all_cpu.push_back(all.per_cpu_second);
      seen.all_wall.push_back(all.per_second);
      seen.ratio.push_back(all.per_cpu_second / alone.per_cpu_second);
    }
  };
  std::vector<std::thread> threads;
  for (int number = 1; number < engines; ++number) threads.emplace_back(run, number);
  run(0);
  for (std::thread& thread : threads) thread.join();
  return seen;
}

}  // namespace

int main(int argc, char** argv) {
  std::string spec = "roce+shm:cores%";
  int engines = 2;
  double seconds = 0.3;
  uint32_t size = 8;
  CLI::App app("weft_cores: WRITEs per second of one engine alone, and of several side by side.");
  app.option_defaults()->always_capture_default();
  app.add_option("device", spec, "Device string; each % becomes the number of the engine");
  app.add_option("engines", engines, "How many, a thread and a core each")
      ->check(CLI::Range(1, 1024));
  app.add_option("seconds", seconds, "Time for each figure")->check(CLI::Range(0.001, 1000.0));
  app.add_option("size", size, "Bytes of a WRITE")->check(CLI::Range(1u, 1u << 30));
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  Seen seen = measure(spec, engines, seconds, size);
  const auto [least, most] = std::minmax_element(seen.ratio.begin(), seen.ratio.end());
  std::printf(
      "%s, %d engines, M WRITEs of %u B per processor second: one %.3g, all %.3g: %.2fx "
      "(%.2f .. %.2f); per second: %.3g, %.3g\n",
      spec.c_str(), engines, size, median(seen.one_cpu) / 1e6, median(seen.all_cpu) / 1e6,
      median(seen.ratio), *least, *most, median(seen.one_wall) / 1e6, median(seen.all_wall) / 1e6);
  return 0;
}
