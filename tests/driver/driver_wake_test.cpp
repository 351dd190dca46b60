// SPDX-License-Identifier: BSD-3-Clause
// Wake-ups of the driver: a thread that sleeps on a completion queue is woken by the call in which
// the queue fires, idle turns included; polls leave the progress thread asleep and active; posts
// leave in the call or share a transmit; and the driver writes to stderr without its lock. Turns
// are made one by one, without the thread, where nothing else is written.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "lib/driver/driver.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

namespace weft::driver {
namespace {

// A port that receives at most one frame per call and sends nothing.
struct QuietPort : transport::Port {
  transport::Capabilities caps;
  transport::Path path;
  std::array<std::byte, 64> bytes{};
  bool has_frame = false;

  const transport::Capabilities& capabilities() const noexcept override { return caps; }
  Gid address() const noexcept override { return {}; }
  size_t receive(std::span<transport::Frame> frames) noexcept override {
    if (!has_frame) return 0;
    frames[0].path = &path;
    frames[0].bytes = bytes.data();
    frames[0].length = bytes.size();
    return 1;
  }
  void release(std::span<const transport::Frame>) noexcept override {}
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override {
    return frames.size();
  }
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return ++sleeps, true; }
  void finish_wait() noexcept override { ++wakes; }

  std::atomic<int> sleeps{0}, wakes{0};  // of the progress thread
};

// A machine that never sends, and finds every frame damaged.
struct QuietMachine : transport::Machine {
  using Machine::Machine;
  void receive(std::span<const transport::Frame> frames, Instant) noexcept override {
    for (const transport::Frame& frame : frames) (void)verify_icrc(frame, 4791);
  }
  size_t transmit(std::span<transport::TxFrame>, Instant) noexcept override { return ++asked, 0; }
  void expire(Instant) noexcept override {}
  bool wants_transmit() const noexcept override { return false; }
  bool has_active() const noexcept override { return false; }

  int asked = 0;  // calls of transmit()
};

struct Bench {
  QuietPort* const port = new QuietPort;
  Driver driver;
  CqHandle cq{16, false, true};

  explicit Bench(bool single_thread = true)
      : driver(std::unique_ptr<transport::Port>(port),
               [](transport::Port& below, base::SecureRandom& random) {
                 return std::make_unique<QuietMachine>(below, random);
               },
               {.single_thread = single_thread}) {
    if (single_thread) REQUIRE(driver.start());
    driver.add_cq(&cq);
  }
  ~Bench() { driver.remove_cq(&cq); }

  void complete(uint64_t id) {
    driver.update_machine_time();
    REQUIRE(driver.machine().deliver({}, cq.ring, {.id = id}, false));
  }
  void after_post(uint32_t requests) {
    Holder hold(driver.lock());
    driver.after_post(requests);
  }
  bool woken() const {
    pollfd wanted{cq.event_fd, POLLIN, 0};
    if (::poll(&wanted, 1, 0) != 1) return false;
    uint64_t count;
    return read(cq.event_fd, &count, sizeof count) == sizeof count;
  }
};

TEST_CASE("a post that completes at once wakes its queue, batched or not") {
  Bench bench;
  for (uint64_t id = 0; id < 10; ++id) {  // from the third on posts are batched
    bench.cq.ring.arm(Notify::all);
    bench.complete(id);
    bench.after_post(1);
    CHECK(bench.woken());
  }
}

TEST_CASE("single_thread: the third post after a poll is held, and leaves with the 64th request") {
  Bench bench;
  const auto& machine = static_cast<const QuietMachine&>(bench.driver.machine());
  for (const int asked : {1, 2, 2, 2}) {
    bench.after_post(1);
    CHECK(machine.asked == asked);
  }
  bench.after_post(61);
  CHECK(machine.asked == 2);
  bench.after_post(1);
  CHECK(machine.asked == 3);
  for (int i = 0; i < 16; ++i) bench.driver.progress();
  const int polled = machine.asked;
  bench.after_post(1);
  CHECK(machine.asked == polled + 1);
}

// Without a poll in time nothing is held. `asked`: transmissions before the next call into weft.
TEST_CASE("each post is sent in the call, unless the application is known to poll at once") {
  Bench bench(false);  // its thread is not started
  const auto& machine = static_cast<const QuietMachine&>(bench.driver.machine());
  const auto sent_of = [&](int posts) {
    const int before = machine.asked;
    for (int i = 0; i < posts; ++i) bench.after_post(1);
    return machine.asked - before;
  };
  CHECK(sent_of(100) == 100);
  for (int i = 0; i < 10; ++i) {  // it polls late
    bench.driver.progress();
    CHECK(sent_of(5) == 5);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  bench.driver.progress();
  int rounds = 0;
  for (; rounds < 1'000'000 && sent_of(5) == 5; ++rounds) bench.driver.progress();
  CHECK(rounds >= 16);  // polls in a row, each within 20 us
  CHECK(rounds < 1'000'000);
  const auto poll_late = [&] {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    bench.driver.progress();
  };
  poll_late();  // one late poll does not end it: another program may have had the core
  CHECK(sent_of(5) == 2);
  poll_late();
  CHECK(sent_of(5) == 5);
}

TEST_CASE("every idle turn signals fired queues, not one in sixteen") {
  Bench bench;
  for (uint64_t id = 0; id < 10; ++id) {
    bench.cq.ring.arm(Notify::all);
    bench.complete(id);
    bench.driver.progress();
    CHECK(bench.woken());
  }
}

TEST_CASE("a moderated queue sets its deadline once, not with each completion") {
  Bench bench;
  bench.driver.cqs().moderate(bench.cq, {1000, Duration::from_s(60)});
  bench.cq.ring.arm(Notify::all);
  bench.complete(1);
  CHECK(bench.driver.machine().take_fired());  // its period begins
  bench.complete(2);
  CHECK_FALSE(bench.driver.machine().has_pending_events());
  bench.driver.cqs().moderate(bench.cq, {4, Duration::from_s(60)});  // fires
  CHECK(bench.woken());
  bench.cq.ring.arm(Notify::all);
  for (uint64_t id = 3; id < 6; ++id) bench.complete(id);
  bench.driver.progress();
  CHECK_FALSE(bench.woken());
  bench.complete(6);
  bench.driver.progress();
  CHECK(bench.woken());
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST_CASE("polls leave the progress thread asleep, and active") {
  Bench bench(false);
  REQUIRE(bench.driver.start());
  const QuietPort& port = *bench.port;
  const auto& machine = static_cast<const QuietMachine&>(bench.driver.machine());
  bench.driver.arm(bench.cq, Notify::all);
  for (int i = 0; i < 500 && port.sleeps == port.wakes; ++i) pause();
  pause();  // until its first wake-ups are handled
  const int wakes = port.wakes;
  REQUIRE(port.sleeps == wakes + 1);
  for (int i = 0; i < 100; ++i) bench.driver.progress();
  pause();
  CHECK(port.wakes == wakes);
  const int asked = machine.asked;
  for (int i = 0; i < 10; ++i) bench.after_post(1);
  CHECK(machine.asked == asked + 10);
}

// Else a real-time thread that spins on memory would keep it from the core for ever.
TEST_CASE("the progress thread of a real-time thread has the next higher priority") {
  sched_param own{};
  const int before = sched_getscheduler(0);
  REQUIRE(sched_getparam(0, &own) == 0);
  const sched_param wanted{.sched_priority = 7};
  if (sched_setscheduler(0, SCHED_FIFO, &wanted) != 0)
    WEFT_SKIP("driver/driver_wake_test: real-time priority", std::strerror(errno));
  Bench bench(false);
  const Result<void> started = bench.driver.start();
  REQUIRE(sched_setscheduler(0, before, &own) == 0);
  REQUIRE(started);
  int priority = 0;
  for (int i = 0; i < 500 && priority != 8; ++i, pause())
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      sched_param param{};
      if (name == "weft-progress" && sched_getparam(std::stoi(task.path().filename()), &param) == 0)
        priority = param.sched_priority;
    }
  CHECK(priority == 8);
}

TEST_CASE("packets are left to an application that takes them, and to the thread otherwise") {
  constexpr Duration kFirst = Duration::from_us(50), kLast = Duration::from_us(400);
  WakePolicy policy;
  CHECK(policy.check_after() == kLast);
  const auto wake_ups_until_left = [&](bool received) {
    int wake_ups = 1;
    while (!policy.leaves_packets(received)) ++wake_ups;
    CHECK(policy.check_after() == kFirst);
    return wake_ups;
  };
  CHECK(policy.takes_packets(false));
  CHECK(wake_ups_until_left(false) == 4);  // for nothing: the application had taken the packets
  while (policy.check_after() < kLast) CHECK_FALSE(policy.takes_packets(true));
  CHECK_FALSE(policy.takes_packets(true));
  CHECK(policy.takes_packets(false));

  // It polls, but not for these packets: trials become rare.
  for (const int wake_ups : {16, 32, 64, 128, 256, 512, 1024, 1024}) {
    CHECK(wake_ups_until_left(true) == wake_ups);
    CHECK_FALSE(policy.takes_packets(true));
    CHECK(policy.takes_packets(false));
  }
  for (int i = 0; i < 255; ++i) CHECK_FALSE(policy.leaves_packets(false));
  CHECK_FALSE(policy.leaves_packets(true));  // not in a row
  policy.forget_wake_ups();
  CHECK(wake_ups_until_left(false) == 256);
  while (policy.check_after() < kLast) CHECK_FALSE(policy.takes_packets(true));
  CHECK(policy.takes_packets(false));
  CHECK(wake_ups_until_left(true) == 16);  // a trial has succeeded
}

// stderr is a full pipe: only the thread that writes the warning blocks.
TEST_CASE("the warning about a peer's ICRC is written without the lock") {
  unsetenv("WEFT_LOG");
  Bench bench(false);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const int flags = fcntl(ends[1], F_GETFL);
  REQUIRE(fcntl(ends[1], F_SETFL, flags | O_NONBLOCK) == 0);
  const std::array<char, 4096> page{};
  while (write(ends[1], page.data(), page.size()) > 0) {
  }
  while (write(ends[1], page.data(), 1) > 0) {
  }
  REQUIRE(fcntl(ends[1], F_SETFL, flags) == 0);
  std::fflush(stderr);
  const int before = dup(2);
  REQUIRE(dup2(ends[1], 2) == 2);

  std::atomic<bool> written{false};
  bench.port->has_frame = true;
  std::thread writer([&] {
    for (int i = 0; i < 40; ++i) bench.driver.progress();
    written = true;
  });
  // Once the counter has reported the peer, the thread blocks in its write.
  bool counted = false, free = false;
  for (int i = 0; i < 2000 && !(counted && free); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    free = bench.driver.lock().try_lock();
    if (!free) continue;
    counted = bench.driver.machine().counters()[transport::Count::peers_failing_icrc] == 1;
    bench.driver.lock().unlock();
  }
  const bool blocked = !written;
  dup2(before, 2);
  close(before);
  std::array<char, 4096> text;
  REQUIRE(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  while (!written)  // empty the pipe
    if (read(ends[0], text.data(), text.size()) <= 0) std::this_thread::yield();
  writer.join();
  close(ends[0]);
  close(ends[1]);
  CHECK(counted);
  CHECK(free);
  CHECK(blocked);
}

}  // namespace
}  // namespace weft::driver
