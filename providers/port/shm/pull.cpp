// SPDX-License-Identifier: BSD-3-Clause
// Reading another process's memory, when that pays, and the barrier that spares fences. See
// rendezvous.hpp.
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "providers/port/shm/rendezvous.hpp"

namespace weft::port::shm {

int pull_from(pid_t pid, void* destination, uint64_t address, size_t size) noexcept {
  auto* to = static_cast<std::byte*>(destination);
  while (size != 0) {
    const iovec local{to, size};
    const iovec remote{reinterpret_cast<void*>(address), size};
    // Not process_vm_readv(): ThreadSanitizer would take the arrival of a peer's WRITE, which
    // programs wait for by looking at memory, for a race of this thread with theirs.
    const ssize_t got = syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0);
    if (got < 0) return errno;
    if (got == 0) return EFAULT;
    to += got;
    address += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return 0;
}

bool pull_permitted() noexcept {
  const Nonce from{};
  Nonce to;
  return pull_from(getpid(), to.data(), reinterpret_cast<uint64_t>(from.data()), from.size()) == 0;
}

namespace {

// The best of a few tries, in nanoseconds.
template <class Work>
int64_t best_time(Work work) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < 6; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const auto time = std::chrono::steady_clock::now() - begin;
    best = std::min<int64_t>(best, std::chrono::nanoseconds(time).count());
  }
  return best;
}

}  // namespace

// Through the ring a byte is copied twice, and the second copy fetches it from the other core's
// cache: about 2.5 times a copy within one core. A pull is one copy of that kind, a system call,
// and the kernel's work for each page, which differs between machines by a factor of five.
uint32_t measure_pull_threshold() noexcept {
  constexpr size_t kLargest = 65536;
  Mapping memory(
      mmap(nullptr, 2 * kLargest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      2 * kLargest);
  if (!memory) return 0;
  std::memset(memory.data(), 1, memory.size());
  std::byte* to = memory.data() + kLargest;
  const auto from = reinterpret_cast<uint64_t>(memory.data());
  for (size_t size = 8192; size <= kLargest; size *= 2) {
    int error = 0;
    const int64_t pull = best_time([&] { error |= pull_from(getpid(), to, from, size); });
    const int64_t copy = best_time([&] {
      std::memcpy(to, memory.data(), size);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    });
    if (error != 0) return 0;
    if (pull * 2 < copy * 5) return static_cast<uint32_t>(size);
  }
  return 0;
}

int64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

bool register_barrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void barrier_everywhere() noexcept {
  (void)!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace weft::port::shm
