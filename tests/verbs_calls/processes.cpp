// SPDX-License-Identifier: BSD-3-Clause
// fork(), and devices that are opened and closed many times: nothing leaks, and parents go on.
#include <dirent.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/loop.hpp"

namespace {

bool transfers(Ends& ends) {
  Loop loop(ends, nullptr);
  std::memset(ends.at(0), 0x5A, 8);
  std::memset(ends.at(64), 0, 8);
  loop.write(ends, ends.mr->rkey);
  const bool success = wait_for(loop.cq).status == IBV_WC_SUCCESS;
  CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
  return success && std::memcmp(ends.at(0), ends.at(64), 8) == 0;
}

// The exit code of a child that runs `body`, which returns it; -1 if it was killed.
template <class Body>
int code_of_child(Body body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    std::exit(body());  // with the handlers of exit()
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int child_with_a_device_of_its_own() {
  failures = 0;
  Ends own(IBV_QPT_RC);
  return transfers(own) && failures == 0 ? 7 : 1;
}

void forks() {
  CHECK(ibv_fork_init() == 0);
  auto ends = std::make_unique<Ends>(IBV_QPT_RC);
  CHECK(transfers(*ends));
  CHECK(code_of_child([] { return 5; }) == 5);
  CHECK(transfers(*ends));
  CHECK(code_of_child(child_with_a_device_of_its_own) == 7);
  CHECK(transfers(*ends));
  // A child may destroy what it has of the parent's objects.
  CHECK(code_of_child([&] {
          failures = 0;
          ends.reset();
          return failures == 0 ? 9 : 1;
        }) == 9);
  CHECK(code_of_child([&] {
          failures = 0;
          const int code = child_with_a_device_of_its_own();
          ends.reset();
          return code == 7 && failures == 0 ? 7 : 1;
        }) == 7);
  CHECK(transfers(*ends));
  // The child opens its device while the parent has none.
  ends.reset();
  CHECK(code_of_child(child_with_a_device_of_its_own) == 7);
}

int entries_of(const char* folder) {
  DIR* open = opendir(folder);
  REQUIRE(open != nullptr);
  int count = 0;
  while (readdir(open) != nullptr) ++count;
  closedir(open);
  return count;
}

struct Held {
  int descriptors = entries_of("/proc/self/fd");
  int threads = entries_of("/proc/self/task");
  size_t bytes = mallinfo2().uordblks;
};

// `step` leaves nothing behind, however often. Memory may grow by a few KiB: the allocator's own.
template <class Step>
void leaves_nothing(int times, Step step) {
  for (int i = 0; i < 20; ++i) step();  // what is allocated once
  const Held before;
  for (int i = 0; i < times; ++i) step();
  const Held after;
  CHECK(after.descriptors == before.descriptors);
  CHECK(after.threads == before.threads);
  std::printf("%d cycles: %zd bytes more\n", times,
              static_cast<ssize_t>(after.bytes) - static_cast<ssize_t>(before.bytes));
  CHECK(after.bytes < before.bytes + 65536);
}

}  // namespace

void check_processes() { forks(); }

// Until it is killed.
void transfer_endlessly() {
  Ends ends(IBV_QPT_RC);
  for (bool first = true; transfers(ends); first = false) {
    if (first) std::printf("runs\n");
    std::fflush(stdout);
  }
}

void check_cycles() {
  const bool is_long = std::getenv("WEFT_TEST_LONG") != nullptr;
  leaves_nothing(is_long ? 100'000 : 10'000, [] {
    ibv_context* context = open_device();
    CHECK(context != nullptr && ibv_close_device(context) == 0);
  });
  leaves_nothing(is_long ? 10'000 : 100, [] {
    Ends ends(IBV_QPT_RC);
    CHECK(transfers(ends));
  });
  Ends ends(IBV_QPT_RC);
  leaves_nothing(is_long ? 100'000 : 1000, [&] { CHECK(transfers(ends)); });
}
