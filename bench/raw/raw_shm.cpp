// SPDX-License-Identifier: BSD-3-Clause
// The floors of shared memory on this machine, without weft: what two pinned processes reach with a
// cache line, a ring of 64-byte slots, a ring of 4 KiB slots, and one pull of a large block. The
// numbers of roce+shm are judged against these, measured in the same minute.
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "bench/perftest/command_line.hpp"

namespace {

constexpr size_t kLine = 64;
constexpr size_t kLargeBlock = 1u << 20;
constexpr size_t kBlockCopies = 8;  // source blocks that a pull walks through
constexpr uint32_t kRingBlocks = 64;

struct alignas(kLine) Line {
  std::atomic<uint64_t> value{0};
};

struct alignas(kLine) Slot {
  std::atomic<uint64_t> sequence{0};
  uint64_t payload[7]{};
};

struct Shared {
  Line start;  // both sides are ready
  Line ping;
  Line pong;
  Line consumed;
  Slot slots[1024];
  Line block_ready[kRingBlocks];
  alignas(4096) std::byte blocks[kRingBlocks][4096];
  alignas(4096) std::byte large[kBlockCopies][kLargeBlock];
};

struct Row {
  const char* name;
  double value;
  const char* unit;
};

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core % static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Private memory from the start of a page, as rep movsb wants it: some processors copy five times
// slower to an address shortly behind one, which is where malloc puts large blocks.
struct PrivateMemory {
  explicit PrivateMemory(size_t size) : size_(size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) _exit(1);
    data = static_cast<std::byte*>(memory);
    std::memset(data, 1, size);
  }
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;
  ~PrivateMemory() { munmap(data, size_); }

  std::byte* data;

 private:
  size_t size_;
};

double now_ns() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::nanoseconds(t).count());
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void await(const std::atomic<uint64_t>& value, uint64_t wanted) {
  while (value.load(std::memory_order_acquire) < wanted)
    ;
}

void meet(Shared& shared, uint64_t round) {
  shared.start.value.fetch_add(1);
  while (shared.start.value.load() < round * 2) pause();
}

// Runs `far` in a forked process on core 1 and `near` here on core 0; the time of `near` in ns.
double measure(Shared& shared, const std::function<void()>& near,
               const std::function<void()>& far) {
  new (&shared) Shared;
  const pid_t child = fork();
  if (child == 0) {
    pin(1);
    meet(shared, 1);
    far();
    _exit(0);
  }
  pin(0);
  meet(shared, 1);
  const double begin = now_ns();
  near();
  const double time = now_ns() - begin;
  waitpid(child, nullptr, 0);
  return time;
}

double ping_pong(Shared& s, uint64_t rounds) {
  const auto near = [&] {
    for (uint64_t i = 1; i <= rounds; ++i) {
      s.ping.value.store(i, std::memory_order_release);
      await(s.pong.value, i);
    }
  };
  const auto far = [&] {
    for (uint64_t i = 1; i <= rounds; ++i) {
      await(s.ping.value, i);
      s.pong.value.store(i, std::memory_order_release);
    }
  };
  return measure(s, near, far) / static_cast<double>(rounds) / 2;
}

// Millions of slots per second.
double slot_ring(Shared& s, uint64_t count) {
  const auto near = [&] {
    uint64_t free_until = std::size(s.slots);
    for (uint64_t i = 0; i < count; ++i) {
      while (i >= free_until)
        free_until = s.consumed.value.load(std::memory_order_acquire) + std::size(s.slots);
      Slot& slot = s.slots[i % std::size(s.slots)];
      for (uint64_t& word : slot.payload) word = i;
      slot.sequence.store(i + 1, std::memory_order_release);
    }
    await(s.consumed.value, count);
  };
  const auto far = [&] {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
      Slot& slot = s.slots[i % std::size(s.slots)];
      await(slot.sequence, i + 1);
      for (const uint64_t word : slot.payload) sum += word;
      if (i % 64 == 63) s.consumed.value.store(i + 1, std::memory_order_release);
    }
    asm volatile("" ::"r"(sum));
    s.consumed.value.store(count, std::memory_order_release);
  };
  return static_cast<double>(count) * 1e3 / measure(s, near, far);
}

// GB/s of 4 KiB messages, each copied in by one process and out by the other.
double block_ring(Shared& s, uint64_t count) {
  PrivateMemory memory(64 * 4096);
  const auto near = [&] {
    for (uint64_t i = 0; i < count; ++i) {
      if (i >= kRingBlocks) await(s.consumed.value, i - kRingBlocks + 1);
      std::memcpy(s.blocks[i % kRingBlocks], memory.data + i % 64 * 4096, 4096);
      s.block_ready[i % kRingBlocks].value.store(i + 1, std::memory_order_release);
    }
    await(s.consumed.value, count);
  };
  const auto far = [&] {
    for (uint64_t i = 0; i < count; ++i) {
      await(s.block_ready[i % kRingBlocks].value, i + 1);
      std::memcpy(memory.data + i % 64 * 4096, s.blocks[i % kRingBlocks], 4096);
      s.consumed.value.store(i + 1, std::memory_order_release);
    }
  };
  return static_cast<double>(count) * 4096 / measure(s, near, far);
}

// GB/s of pulls of `size` bytes from the other process, which only holds the memory. It rotates
// through blocks, as an application that sends from several buffers does.
double pull(Shared& s, size_t size, uint64_t count, bool system_call) {
  PrivateMemory target(size), source(sizeof s.large);
  const pid_t parent = getpid();
  std::memset(s.large, 1, sizeof s.large);
  double time = 0;
  bool denied = false;
  const auto far = [&] {
    const double begin = now_ns();
    for (uint64_t i = 0; i < count && !denied; ++i) {
      const size_t block = i % kBlockCopies;
      if (system_call) {
        const iovec local{target.data, size};
        const iovec remote{source.data + block * kLargeBlock, size};
        denied = process_vm_readv(parent, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(size);
      } else {
        std::memcpy(target.data, s.large[block], size);
      }
    }
    s.pong.value = denied ? 0 : static_cast<uint64_t>(now_ns() - begin);
    s.ping.value = 1;
  };
  measure(
      s,
      [&] {
        while (s.ping.value.load() == 0) pause();
      },
      far);
  time = static_cast<double>(s.pong.value.load());
  return time == 0 ? 0 : static_cast<double>(size * count) / time;
}

// The best of many short runs: on a shared machine most are disturbed.
constexpr int kRepeats = 30;

double best_of(bool smallest, const std::function<double()>& run) {
  double best = run();
  for (int i = 1; i < kRepeats; ++i)
    best = smallest ? std::min(best, run()) : std::max(best, run());
  return best;
}

std::vector<Row> run_all(Shared& s) {
  const auto high = [](const std::function<double()>& run) { return best_of(false, run); };
  return {
      {"line_half_round_trip", best_of(true, [&] { return ping_pong(s, 5000); }), "ns"},
      {"slot_64_rate", high([&] { return slot_ring(s, 200'000); }), "M/s"},
      {"copy_in_out_4k", high([&] { return block_ring(s, 10'000); }), "GB/s"},
      {"pull_64k_readv", high([&] { return pull(s, 65536, 200, true); }), "GB/s"},
      {"pull_64k_memcpy", high([&] { return pull(s, 65536, 1000, false); }), "GB/s"},
      {"pull_1m_readv", high([&] { return pull(s, kLargeBlock, 20, true); }), "GB/s"},
      {"pull_1m_memcpy", high([&] { return pull(s, kLargeBlock, 50, false); }), "GB/s"},
  };
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  CLI::App app(
      "raw_shm: what shared memory reaches between two processes on processors 0 and 1. 0 GB/s: "
      "the "
      "kernel refused.");
  app.add_flag("--json", json, "Print JSON");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("raw_shm: mmap"), 1;
  const std::vector<Row> rows = run_all(*static_cast<Shared*>(memory));
  const char* separator = "{";
  for (const Row& row : rows) {
    if (json) {
      std::printf("%s\"%s\": {\"value\": %.3f, \"unit\": \"%s\"}", separator, row.name, row.value,
                  row.unit);
      separator = ", ";
    } else {
      std::printf("%-22s %10.2f %s\n", row.name, row.value, row.unit);
    }
  }
  if (json) std::printf("}\n");
  return 0;
}
