// SPDX-License-Identifier: BSD-3-Clause
// What one small request costs in instructions: two devices of one process, without threads or
// locks, bounce 8 bytes by WRITEs or SENDs, or one sends WRITEs posted in batches. Under callgrind
// the count has no noise and says where it goes:
//
//   valgrind --tool=callgrind --toggle-collect=bounce weft_cost roce+shm:cost 20000
//   valgrind --tool=callgrind --toggle-collect=stream weft_cost roce+shm:cost 20000 64
//   valgrind --tool=callgrind --toggle-collect=exchange weft_cost --send roce+shm:cost 20000
//
// Divide by the number of requests that it prints: the figure is both sides together, from post to
// the flag or completion that the target sees, acknowledgements and completions included.
// srd+shm:cost likewise. instructions.py compares with the figures that are recorded.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/perftest/both_ends.hpp"
#include "bench/perftest/command_line.hpp"

namespace {

using namespace weft;
using bench::Side;

void write_flag(Side& from, Side& to, uint64_t value, bool signaled) {
  *from.word(8) = value;  // the peer writes to the first word
  const Sge source = from.region.sge(64, 8);
  SendRequest request{.opcode = Opcode::write, .sges = {&source, 1}};
  request.flags = signaled ? SendFlags::signaled : SendFlags::none;
  request.remote_address = reinterpret_cast<uint64_t>(to.word(0));
  request.rkey = to.region.rkey();
  if (!from.qp.post_send(request)) std::exit(1);
}

void wait_for(Side& side, uint64_t value) {
  (void)side.device.wait_until(
      [&] { return __atomic_load_n(side.word(0), __ATOMIC_ACQUIRE) == value; });
}

}  // namespace

// Not in a namespace, so that callgrind finds it by this name.
extern "C" __attribute__((noinline)) void bounce(Side& a, Side& b, uint64_t count) {
  Completion done[16];
  for (uint64_t i = 1; i <= count; ++i) {
    const bool signaled = i % 32 == 0;
    write_flag(a, b, i, signaled);
    wait_for(b, i);
    write_flag(b, a, i, signaled);
    wait_for(a, i);
    if (!signaled) continue;
    while (a.cq.poll(done) == 0) b.device.progress();
    while (b.cq.poll(done) == 0) a.device.progress();
  }
}

// `batch` WRITEs are posted one by one, the last asks for a completion, which comes before the next
// batch.
extern "C" __attribute__((noinline)) void stream(Side& a, Side& b, uint64_t count, uint64_t batch) {
  Completion done[16];
  for (uint64_t i = 1; i <= count; ++i) {
    write_flag(a, b, i, i % batch == 0);
    if (i % batch != 0) continue;
    while (a.cq.poll(done) == 0) b.device.progress();
  }
}

namespace {

// A SEND of 8 bytes, and its completions on both sides.
void send_to(Side& from, Side& to) {
  const Sge source = from.region.sge(64, 8), place = to.region.sge(0, 8);
  if (!to.qp.post_recv({.sges = {&place, 1}})) std::exit(1);
  SendRequest request{.opcode = Opcode::send, .sges = {&source, 1}};
  request.flags = SendFlags::signaled;
  if (!from.qp.post_send(request)) std::exit(1);
  Completion done[2];
  while (to.cq.poll(done) == 0) from.device.progress();
  while (from.cq.poll(done) == 0) to.device.progress();
}

}  // namespace

extern "C" __attribute__((noinline)) void exchange(Side& a, Side& b, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    send_to(a, b);
    send_to(b, a);
  }
}

int main(int argc, char** argv) {
  std::string spec = "roce+shm:cost";
  uint64_t count = 20000, batch = 0;
  bool send = false;
  CLI::App app("weft_cost: instructions of a request of 8 bytes, to be counted by callgrind.");
  app.option_defaults()->always_capture_default();
  app.add_option("device", spec, "Device string of both sides");
  app.add_option("count", count, "Requests of each side")->check(CLI::Range(1ul, 1ul << 40));
  CLI::Option* const batches =
      app.add_option("batch", batch, "Post so many WRITEs together, from one side only; 0: one");
  app.add_flag("--send", send, "SENDs, one by one (default: WRITEs)")->excludes(batches);
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  Side a(spec), b(spec);
  bench::connect_pair(a, b);
  if (send) {
    exchange(a, b, count);
  } else if (batch != 0) {
    stream(a, b, count - count % batch, batch);
  } else {
    bounce(a, b, count);
  }
  std::printf("%llu %s of 8 B over %s\n",
              static_cast<unsigned long long>(batch != 0 ? count - count % batch : 2 * count),
              send ? "SENDs" : "WRITEs", spec.c_str());
  return 0;
}
