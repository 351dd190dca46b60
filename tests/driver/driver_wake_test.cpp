// SPDX-License-Identifier: BSD-3-Clause
// Who sleeps on a completion queue is woken by the very call in which it fires, whatever the driver
// saves in idle turns; who looks once more before sleeping is watched for; posts share a doorbell;
// and nobody waits for the lock while the driver writes to stderr. Turns are made one by one here:
// no thread.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "lib/driver/driver.hpp"
#include "tests/support/catch.hpp"

namespace weft::driver {
namespace {

// A port that gives away one frame at a time.
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

  std::atomic<int> sleeps{0}, wakes{0};  // of the thread
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

  int asked = 0;  // what there is to send
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
  bool woken() const {
    pollfd wanted{cq.event_fd, POLLIN, 0};
    if (::poll(&wanted, 1, 0) != 1) return false;
    uint64_t count;
    return read(cq.event_fd, &count, sizeof count) == sizeof count;
  }
};

TEST_CASE("a post that completes at once wakes its queue, held back with others or not") {
  Bench bench;
  for (uint64_t id = 0; id < 10; ++id) {  // from the third on posts wait for more
    bench.cq.ring.arm(Notify::all);
    bench.complete(id);
    bench.driver.after_post(1);
    CHECK(bench.woken());
  }
}

TEST_CASE("the first two posts after a poll leave at once, 64 of the others together") {
  Bench bench;
  const auto& machine = static_cast<const QuietMachine&>(bench.driver.machine());
  for (const int asked : {1, 2, 2, 2}) {
    bench.driver.after_post(1);
    CHECK(machine.asked == asked);
  }
  bench.driver.after_post(61);
  CHECK(machine.asked == 2);
  bench.driver.after_post(1);
  CHECK(machine.asked == 3);
  for (int i = 0; i < 16; ++i) bench.driver.progress();
  const int polled = machine.asked;
  bench.driver.after_post(1);
  CHECK(machine.asked == polled + 1);
}

TEST_CASE("the first idle turn wakes who waits, not one of sixteen") {
  Bench bench;
  for (uint64_t id = 0; id < 10; ++id) {
    bench.cq.ring.arm(Notify::all);
    bench.complete(id);
    bench.driver.progress();
    CHECK(bench.woken());
  }
}

TEST_CASE("a queue that holds back is looked after once, not with each completion") {
  Bench bench;
  bench.driver.moderate(bench.cq, {1000, Duration::from_s(60)});
  bench.cq.ring.arm(Notify::all);
  bench.complete(1);
  CHECK(bench.driver.machine().take_fired());  // its period begins
  bench.complete(2);
  CHECK_FALSE(bench.driver.machine().has_pending_events());
  bench.driver.moderate(bench.cq, {4, Duration::from_s(60)});  // lets go
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

TEST_CASE("the look between arming a queue and sleeping leaves the thread on watch") {
  Bench bench(false);
  REQUIRE(bench.driver.start());
  const QuietPort& port = *bench.port;
  bench.driver.arm(bench.cq, Notify::all);
  for (int i = 0; i < 500 && port.sleeps == port.wakes; ++i) pause();
  pause();  // what woke it at first is over
  const int wakes = port.wakes;
  REQUIRE(port.sleeps == wakes + 1);
  bench.driver.progress();
  pause();
  CHECK(port.wakes == wakes);
  bench.driver.progress();  // it goes on polling
  for (int i = 0; i < 500 && port.wakes == wakes; ++i) pause();
  CHECK(port.wakes == wakes + 1);
}

// stderr is a pipe that is full: the thread that has something to say stands still, alone.
TEST_CASE("the word about a peer is said without the lock") {
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

  std::atomic<bool> said{false};
  bench.port->has_frame = true;
  std::thread speaker([&] {
    for (int i = 0; i < 40; ++i) bench.driver.progress();
    said = true;
  });
  // It is in the middle of its word once the counter has told of the peer; then it stands there.
  bool told = false, free = false;
  for (int i = 0; i < 2000 && !(told && free); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    free = bench.driver.lock().try_lock();
    if (!free) continue;
    told = bench.driver.machine().counters()[transport::Count::peers_failing_icrc] == 1;
    bench.driver.lock().unlock();
  }
  const bool stands = !said;
  dup2(before, 2);
  close(before);
  std::array<char, 4096> word;
  REQUIRE(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  while (!said)  // its reader comes
    if (read(ends[0], word.data(), word.size()) <= 0) std::this_thread::yield();
  speaker.join();
  close(ends[0]);
  close(ends[1]);
  CHECK(told);
  CHECK(free);
  CHECK(stands);
}

}  // namespace
}  // namespace weft::driver
