// SPDX-License-Identifier: BSD-3-Clause
// Stores in a program whose system calls are interrupted.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/collective/bootstrap/store_support.hpp"
#include "tests/support/catch.hpp"

namespace weft {
namespace {

// Frequent signals, as from an interval timer: system calls return EINTR.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, &before_);
    every(2000);
  }
  ~Signals() {
    every(0);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  static void every(suseconds_t us) {
    const itimerval time{{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &time, nullptr);
  }
  struct sigaction before_ {};
};

TEST_CASE("a get ends in time in a program with signals") {
  std::string folder = "/tmp/weft-store-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  for (const std::string& address :
       {"file:" + folder, "tcp:127.0.0.1:" + std::to_string(free_port())}) {
    const auto store = std::move(*Store::open(address, true));
    const auto other = std::move(*Store::open(address, false));
    // Ends a get that hangs, with a reply.
    std::atomic<bool> over{false};
    std::thread rescue([&] {
      for (int i = 0; i < 500 && !over; ++i) usleep(10'000);
      (void)other->set("never", "late");
    });
    const Signals signals;
    const Result<std::string> never = store->get("never", Duration::from_ms(100));
    over = true;
    rescue.join();
    INFO(address);
    REQUIRE(!never);
    CHECK(never.error().code == Code::timed_out);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
