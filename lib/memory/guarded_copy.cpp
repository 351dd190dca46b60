// SPDX-License-Identifier: BSD-3-Clause
// The SIGSEGV and SIGBUS handler of guarded accesses. The machine-dependent part
// (guarded_access.hpp) tells whether the fault is of a guarded access, which then returns false.
// Any other signal is handled as without weft: by the handler that was installed before, or by the
// default action, a core dump at the faulting instruction.
//
// Every registration checks whether our handler is still installed and installs it again over a
// handler that replaced it. Each installation is another function ("level") with a record of the
// handler that it replaced, so that the chain new level -> other handler -> old level -> first
// handler ends. A thread that blocks SIGSEGV or SIGBUS cannot be guarded: the kernel kills a
// process that faults with the signal blocked.
#include "lib/memory/guarded_copy.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <mutex>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/memory/guarded_access.hpp"

namespace weft::memory {
namespace {

constexpr std::array<int, 2> kSignals = {SIGSEGV, SIGBUS};
constexpr size_t kLevels = 16;
using Handler = void (*)(int, siginfo_t*, void*);

struct Level {
  struct sigaction before = {};  // written before the level's handler can run
  bool used = false;             // under the installer's mutex
};
std::array<std::array<Level, kSignals.size()>, kLevels> levels;

size_t index_of(int signal) {
  WEFT_DCHECK(signal == kSignals[0] || signal == kSignals[1]);
  return signal == kSignals[0] ? 0 : 1;
}

void fall_back_to_default(int signal, const siginfo_t* info) noexcept {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  // After our return the instruction faults again, with the default action. A signal sent by a
  // process would not be repeated.
  if (info->si_code <= 0) raise(signal);
}

// Calls the handler that was installed before, with its signal mask (our return restores the
// thread's) and signature, on the alternate stack if the thread has one.
void hand_on(struct sigaction& before, int signal, siginfo_t* info, void* context) noexcept {
  const struct sigaction action = before;
  const bool with_info = (action.sa_flags & SA_SIGINFO) != 0;
  const bool is_handler =
      with_info || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
  if (!is_handler) {
    if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;
    fall_back_to_default(signal, info);
    return;
  }
  if ((action.sa_flags & SA_RESETHAND) != 0) {
    before.sa_handler = SIG_DFL;
    before.sa_flags = 0;
  }
  sigset_t mask = action.sa_mask;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&mask, signal);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  if (with_info) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
}

template <size_t kLevel>
void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  // A positive si_code comes from the kernel: si_addr is a fault of this thread.
  if (info->si_code > 0 && recover_guarded_access(info, context)) return;
  hand_on(levels[kLevel][index_of(signal)].before, signal, info, context);
}

template <size_t... kLevel>
constexpr std::array<Handler, sizeof...(kLevel)> all_handlers(std::index_sequence<kLevel...>) {
  return {on_fault<kLevel>...};
}
constexpr std::array<Handler, kLevels> kHandlers =
    all_handlers(std::make_index_sequence<kLevels>());

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 &&
         std::find(kHandlers.begin(), kHandlers.end(), action.sa_sigaction) != kHandlers.end();
}

// An unused level; if there is none, one that replaced the same action before, or the last.
size_t choose_level(size_t index, const struct sigaction& current) {
  for (size_t i = 0; i < kLevels; ++i)
    if (!levels[i][index].used) return i;
  for (size_t i = 0; i < kLevels; ++i)
    if (levels[i][index].before.sa_handler == current.sa_handler &&
        levels[i][index].before.sa_flags == current.sa_flags)
      return i;
  return kLevels - 1;
}

void install(int signal) {
  struct sigaction current = {};
  WEFT_CHECK(sigaction(signal, nullptr, &current) == 0);
  if (is_ours(current)) return;
  const size_t index = index_of(signal);
  const size_t chosen = choose_level(index, current);
  WEFT_DCHECK(chosen < kLevels && kHandlers[chosen] != current.sa_sigaction);
  levels[chosen][index] = {current, true};
  struct sigaction ours = {};
  ours.sa_sigaction = kHandlers[chosen];
  // NODEFER: the portable half leaves by a jump. ONSTACK: for a thread with a small stack.
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  WEFT_CHECK(sigaction(signal, &ours, nullptr) == 0);
}

}  // namespace

void install_fault_guard() noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  prepare_guarded_access();
  for (const int signal : kSignals) install(signal);
}

}  // namespace weft::memory
