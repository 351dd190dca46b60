// SPDX-License-Identifier: BSD-3-Clause
// The signal handler of lib/memory/guarded_copy with other handlers: other faults reach the handler
// that was installed before, or end the process by default; it is installed again after another
// handler replaced it. Each scenario runs in a process of its own, because it begins with handlers
// that were installed before the library.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string>

#include "lib/memory/guarded_copy.hpp"
#include "tests/support/pages.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

using weft::memory::copy_in;
using weft::memory::install_fault_guard;
using weft::test::kPage;

namespace {

// The exit status of a child that runs `body`; 256 + signal when it was killed.
template <class Body>
int outcome_of_child(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const int signal : {SIGABRT, SIGTERM}) ::signal(signal, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

namespace {

sigjmp_buf escape;
volatile std::sig_atomic_t seen_signal = 0;
void* volatile seen_address = nullptr;
std::byte* other_page = nullptr;

void with_info(int signal, siginfo_t* info, void*) {
  seen_signal = signal;
  seen_address = info->si_addr;
  siglongjmp(escape, 1);
}
void without_info(int signal) {
  seen_signal = signal;
  siglongjmp(escape, 1);
}
void mend(int, siginfo_t* info, void*) {
  seen_address = info->si_addr;
  mprotect(other_page, kPage, PROT_READ | PROT_WRITE);
}

struct sigaction displaced;
volatile std::sig_atomic_t handed_on = 0;
void hand_on_to_displaced(int signal, siginfo_t* info, void* context) {
  handed_on = handed_on + 1;
  displaced.sa_sigaction(signal, info, context);
}

void set_handler(int signal, void (*info)(int, siginfo_t*, void*), void (*plain)(int), int flags) {
  struct sigaction action = {};
  if (info != nullptr) {
    action.sa_sigaction = info;
    action.sa_flags = SA_SIGINFO | flags;
  } else {
    action.sa_handler = plain;
    action.sa_flags = flags;
  }
  sigaction(signal, &action, nullptr);
}

[[gnu::noinline]] void poke(void* at) { *static_cast<volatile char*>(at) = 1; }

bool guarded_copy_fails_at(std::byte* at) {
  std::byte word[8] = {};
  return !copy_in(at, word, 8);
}

}  // namespace

namespace {

// Runs `body` in a new process image of this test program, where nothing is installed yet.
int outcome_of_fresh_process(const char* scenario) {
  return outcome_of_child([scenario] {
    setenv("WEFT_GUARD_SCENARIO", scenario, 1);
    execl("/proc/self/exe", "memory_fault_handlers_test", "[.scenario]", nullptr);
    _exit(111);
  });
}

// What each scenario ends with when all is well: exit status 0, or the signal it says. The page
// other_page may not be touched.
void scenario_siginfo() {
  set_handler(SIGSEGV, with_info, nullptr, 0);
  install_fault_guard();
  for (static int i = 0; i < 3; ++i) {  // static: survives the jump
    if (!guarded_copy_fails_at(other_page)) _exit(1);
    if (seen_signal != 0) _exit(2);
    if (sigsetjmp(escape, 1) == 0) {
      poke(other_page);
      _exit(3);
    }
    if (seen_signal != SIGSEGV || seen_address != other_page) _exit(4);
    seen_signal = 0;
  }
}

void scenario_plain() {
  set_handler(SIGSEGV, nullptr, without_info, 0);
  install_fault_guard();
  if (!guarded_copy_fails_at(other_page)) _exit(1);
  if (sigsetjmp(escape, 1) == 0) poke(other_page), _exit(3);
  if (seen_signal != SIGSEGV) _exit(4);
}

void scenario_mend() {
  set_handler(SIGSEGV, mend, nullptr, 0);
  install_fault_guard();
  poke(other_page);  // the user's handler makes the page writable and the store is repeated
  if (seen_address != other_page || other_page[0] != std::byte{1}) _exit(4);
}

void scenario_ours() {
  // A fault on weft's side of a copy is not one of user memory: it must not be handled.
  set_handler(SIGSEGV, with_info, nullptr, 0);
  install_fault_guard();
  std::byte word[64];
  if (sigsetjmp(escape, 1) == 0) _exit(copy_in(word, other_page, 64) ? 5 : 6);
  if (seen_address != other_page) _exit(4);
}

void scenario_bus() {
  set_handler(SIGBUS, with_info, nullptr, 0);
  install_fault_guard();
  const int fd = memfd_create("weft-test", MFD_CLOEXEC);
  void* const empty = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!guarded_copy_fails_at(static_cast<std::byte*>(empty))) _exit(1);
  if (sigsetjmp(escape, 1) == 0) poke(empty), _exit(3);
  if (seen_signal != SIGBUS || seen_address != empty) _exit(4);
}

void scenario_once() {
  set_handler(SIGSEGV, with_info, nullptr, static_cast<int>(SA_RESETHAND));
  install_fault_guard();
  if (sigsetjmp(escape, 1) == 0) poke(other_page), _exit(3);
  poke(other_page);  // the second one is not caught any more
}

void scenario_displaced() {
  // The user's handler comes after ours and hands on to ours; ours is put over it again, and all
  // of the chain is called, the oldest last.
  set_handler(SIGSEGV, with_info, nullptr, 0);
  install_fault_guard();
  sigaction(SIGSEGV, nullptr, &displaced);
  set_handler(SIGSEGV, hand_on_to_displaced, nullptr, 0);
  install_fault_guard();
  if (!guarded_copy_fails_at(other_page) || handed_on != 0) _exit(1);
  if (sigsetjmp(escape, 1) == 0) poke(other_page), _exit(3);
  if (handed_on != 1 || seen_signal != SIGSEGV) _exit(4);
  for (int i = 0; i < 100; ++i) {  // also when it happens more often than there are levels
    set_handler(SIGSEGV, with_info, nullptr, i % 2 == 0 ? 0 : SA_ONSTACK);
    install_fault_guard();
    if (!guarded_copy_fails_at(other_page)) _exit(5);
  }
  seen_signal = 0;
  if (sigsetjmp(escape, 1) == 0) poke(other_page), _exit(6);
  if (seen_signal != SIGSEGV) _exit(7);
}

void scenario_by_default() {
  signal(SIGSEGV, SIG_DFL);
  install_fault_guard();
  if (!guarded_copy_fails_at(other_page)) _exit(1);
  poke(other_page);
}

void scenario_ignored() {
  signal(SIGSEGV, SIG_IGN);
  install_fault_guard();
  raise(SIGSEGV);    // sent, not a fault: ignored as before
  poke(other_page);  // a fault cannot be ignored
}

void scenario_sent() {
  signal(SIGSEGV, SIG_DFL);
  install_fault_guard();
  raise(SIGSEGV);
}

void run_scenario(const std::string& scenario) {
  void* bad = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  other_page = static_cast<std::byte*>(bad);
  const std::map<std::string, void (*)()> scenarios = {
      {"siginfo", scenario_siginfo},
      {"plain", scenario_plain},
      {"mend", scenario_mend},
      {"ours", scenario_ours},
      {"bus", scenario_bus},
      {"once", scenario_once},
      {"displaced", scenario_displaced},
      {"default", scenario_by_default},
      {"ignored", scenario_ignored},
      {"sent", scenario_sent},
  };
  scenarios.at(scenario)();
  _exit(0);
}

}  // namespace

TEST_CASE("scenario", "[.scenario]") {
  const char* scenario = std::getenv("WEFT_GUARD_SCENARIO");
  if (scenario != nullptr) run_scenario(scenario);
}

TEST_CASE("other faults reach the handler installed before") {
  CHECK(outcome_of_fresh_process("siginfo") == 0);
  CHECK(outcome_of_fresh_process("plain") == 0);
  CHECK(outcome_of_fresh_process("mend") == 0);
  CHECK(outcome_of_fresh_process("bus") == 0);
  CHECK(outcome_of_fresh_process("displaced") == 0);
#if !SANITIZED
  CHECK(outcome_of_fresh_process("ours") == 0);
#endif
}

TEST_CASE("without another handler, a fault ends the process by the default action") {
#if !SANITIZED  // they have handlers of their own
  CHECK(outcome_of_fresh_process("default") == 256 + SIGSEGV);
  CHECK(outcome_of_fresh_process("once") == 256 + SIGSEGV);
  CHECK(outcome_of_fresh_process("ignored") == 256 + SIGSEGV);
  CHECK(outcome_of_fresh_process("sent") == 256 + SIGSEGV);
#endif
}
