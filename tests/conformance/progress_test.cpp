// SPDX-License-Identifier: BSD-3-Clause
// Progress without calls: the progress thread serves a program that sleeps, at little cost for a
// program that does nothing. Times are printed; the limits are for a loaded machine. ctest: serial
#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/steps.hpp"

namespace weft {
namespace {

using namespace test;

// Runs `operation` against a side b that never calls the library, 100 times, and prints how long it
// took.
void against_a_sleeper(Wire wire, Opcode opcode) {
  Pair p(wire);
  if (opcode == Opcode::fetch_add && !p.a.device.attributes().has_atomics) return;
  const Buffer near(p.a, 4096), far(p.b, 4096);
  const Sge local = near.sge(0, 8);
  std::vector<double> us;
  for (uint64_t i = 1; i <= 100; ++i) {
    sleep_ms(2);  // b's program is known to sleep
    near.word(0) = i;
    const int64_t begin = clock_ns();
    REQUIRE(p.qa.post_send({.id = i,
                            .opcode = opcode,
                            .sges = {&local, 1},
                            .remote_address = far.address(),
                            .rkey = far.region.rkey(),
                            .compare_add = 0}));
    const bool landed = pump_until({&p.a}, [&] { return !p.a.got.empty(); });
    us.push_back(static_cast<double>(clock_ns() - begin) / 1e3);
    REQUIRE(landed);
    REQUIRE(p.a.got[0].status == Status::success);
    p.a.got.clear();
    if (opcode == Opcode::write) REQUIRE(far.word(0) == i);
  }
  std::sort(us.begin(), us.end());
  std::printf("%.1f us median, %.1f us 99th of 100, target asleep\n", us[50], us[98]);
  CHECK(us[50] < 1e6);
}

void sleeping_target(Wire wire) { against_a_sleeper(wire, Opcode::write); }
WEFT_ON_EACH_WIRE_AND_SRD(sleeping_target, "a WRITE lands while the target's program sleeps")
void sleeping_source(Wire wire) { against_a_sleeper(wire, Opcode::read); }
WEFT_ON_EACH_PORT_AND_SRD(sleeping_source, "a READ is answered while the target's program sleeps")
void sleeping_word(Wire wire) { against_a_sleeper(wire, Opcode::fetch_add); }
WEFT_ON_EACH_PORT_AND_SRD(sleeping_word, "an atomic is executed while the target's program sleeps")

void both_asleep(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 1 << 20), far(p.b, 1 << 20);
  fill(near.bytes(), 4);
  const Sge whole = near.sge(0, 1 << 20);
  REQUIRE(p.qa.post_send({.id = 1,
                          .opcode = Opcode::write,
                          .sges = {&whole, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
  const bool counted = p.b.counts("rx_bytes");
  const Deadline deadline(Duration::from_s(counted ? 30 : 1));
  while (!deadline.passed() && !(counted && p.b.counter("rx_bytes") >= (1 << 20))) sleep_ms(5);
  sleep_ms(50);
  CHECK(equal(near.bytes(), far.bytes()));
  Completion c;
  REQUIRE(p.a.cq.wait({&c, 1}, Duration::from_s(20)) == 1);
  CHECK(c.status == Status::success);
}
WEFT_ON_EACH_PORT_AND_SRD(both_asleep, "a megabyte arrives while both programs sleep")

void waiting_on_memory(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  near.word(0) = 1;
  const Sge word = near.sge(0, 8);
  REQUIRE(p.qa.post_send({.opcode = Opcode::write,
                          .sges = {&word, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
  const auto arrived = [&] { return __atomic_load_n(&far.word(0), __ATOMIC_ACQUIRE) == 1; };
  CHECK(p.b.device.wait_until(arrived, Duration::from_s(20)));
  CHECK_FALSE(p.b.device.wait_until([] { return false; }, Duration::from_ms(20)));
}
WEFT_ON_EACH_PORT_AND_SRD(waiting_on_memory, "wait_until makes progress and ends after its limit")

// CPU time of each of our progress threads, in nanoseconds.
std::vector<uint64_t> thread_times() {
  std::vector<uint64_t> times;
  DIR* const tasks = opendir("/proc/self/task");
  REQUIRE(tasks != nullptr);
  while (const dirent* entry = readdir(tasks)) {
    const std::string folder = std::string("/proc/self/task/") + entry->d_name;
    std::string thread_name;
    std::getline(std::ifstream(folder + "/comm"), thread_name);
    if (thread_name != "weft-progress") continue;
    uint64_t ns = 0;
    if (std::ifstream(folder + "/schedstat") >> ns) times.push_back(ns);
  }
  closedir(tasks);
  return times;
}

void idle(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge in = far.sge(0, 8), out = near.sge(0, 8);
  for (int i = 0; i < 2; ++i) REQUIRE(p.qb.post_recv({.sges = {&in, 1}}));
  REQUIRE(p.qa.post_send({.sges = {&out, 1}}));
  REQUIRE(p.next(p.a).status == Status::success);
  p.b.cq.arm();  // a program that sleeps on its queue
  sleep_ms(50);
  const std::vector<uint64_t> before = thread_times();
  REQUIRE(before.size() == p.a.engine + p.b.engine + 2);
  const int seconds = 5;
  sleep_ms(1000 * seconds);
  const std::vector<uint64_t> after = thread_times();
  REQUIRE(after.size() == before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    const double ms = static_cast<double>(after[i] - before[i]) / 1e6;
    std::printf("an idle device used %.2f ms of CPU in %d s\n", ms, seconds);
    CHECK(ms < 50);
  }
}
WEFT_ON_OUR_PORTS(idle, "an idle device uses less than 1 percent of a core")

}  // namespace
}  // namespace weft
