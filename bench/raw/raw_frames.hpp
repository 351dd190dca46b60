// SPDX-License-Identifier: BSD-3-Clause
// Two processes, each on a core of its own, with an end of a raw wire each: what the floors of
// ports that move whole frames measure. An End has
//   size_t send(size_t wanted)   fills and sends that many frames, as far as there is room
//   size_t receive()             takes what has come, looks at it and gives it back
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <vector>

namespace weft::bench {

inline double seconds_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Returns false without permission.
inline bool pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

struct RawRun {
  bool latency = false;
  uint32_t size = 64;  // of a frame, for what is printed
  double seconds = 1;
};

// Shared by both processes.
struct RawBoard {
  volatile bool stop = false;
  volatile uint64_t frames = 0;
  double seconds = 0;
  double median_us = 0;
};

template <class End>
void raw_stream(End& end, bool sends, const RawRun& run, RawBoard& board) {
  constexpr size_t kBurst = 64;
  const double begin = seconds_now();
  if (sends) {
    while (seconds_now() < begin + run.seconds) (void)end.send(kBurst);
    board.stop = true;
    return;
  }
  uint64_t frames = 0;
  while (!board.stop) frames += end.receive();
  board.frames = frames;
  board.seconds = seconds_now() - begin;
}

template <class End>
void raw_ping_pong(End& end, bool begins, const RawRun& run, RawBoard& board) {
  constexpr double kTimeoutS = 5;  // a frame was lost, or the other end is missing
  std::vector<double> times;
  const double begin = seconds_now();
  while (!board.stop) {
    const double start = seconds_now();
    if (begins) (void)end.send(1);
    while (end.receive() == 0)
      if (board.stop || seconds_now() > begin + run.seconds + kTimeoutS) return;
    if (!begins) (void)end.send(1);
    if (!begins) continue;
    times.push_back((seconds_now() - start) / 2 * 1e6);
    board.stop = seconds_now() > begin + run.seconds;
  }
  if (times.empty()) return;
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  board.median_us = times[times.size() / 2];
}

// Runs both processes and prints "N us", or "N frames/s N MB/s". `open` makes end 0 or 1 of them,
// end 1 first; `settle` is what both need before the first frame. Returns the exit code.
template <class Open, class Settle>
int run_raw(const RawRun& run, const Open& open, const Settle& settle) {
  void* const shared =
      mmap(nullptr, sizeof(RawBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ready[2];
  if (shared == MAP_FAILED || pipe(ready) != 0) return 1;
  RawBoard& board = *new (shared) RawBoard;
  const pid_t child = fork();
  const bool first = child != 0;
  if (!first) prctl(PR_SET_PDEATHSIG, SIGKILL);  // it would spin for ever
  close(ready[first ? 1 : 0]);
  char byte = 0;
  if (!pin(first ? 0 : 1)) std::fputs("cannot pin to a core: figures mean less\n", stderr);
  if (first && read(ready[0], &byte, 1) != 1) return 1;  // the other end is there
  auto end = open(first ? 0 : 1);
  if (!first && write(ready[1], &byte, 1) != 1) return 1;
  settle(end);
  run.latency ? raw_ping_pong(end, first, run, board) : raw_stream(end, first, run, board);
  if (!first) _exit(0);
  board.stop = true;
  waitpid(child, nullptr, 0);
  if (run.latency && board.median_us == 0) return 1;
  if (run.latency) {
    std::printf("%.3f us\n", board.median_us);
    return 0;
  }
  const double rate = static_cast<double>(board.frames) / std::max(board.seconds, 1e-9);
  std::printf("%.0f frames/s %.1f MB/s\n", rate, rate * run.size / 1e6);
  return 0;
}

}  // namespace weft::bench
