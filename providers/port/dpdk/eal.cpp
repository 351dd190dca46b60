// SPDX-License-Identifier: BSD-3-Clause
// Starting DPDK's environment (EAL) inside a program that knows nothing of it.
#include <pthread.h>
#include <rte_config.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <vector>

#include "lib/base/log/log.hpp"
#include "providers/port/dpdk/device.hpp"
#include "providers/port/dpdk/no_sigpipe.hpp"

namespace weft::port::dpdk {
namespace {

// Free huge pages of the default size, in MiB.
uint64_t free_huge_mb() {
  FILE* const file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return 0;
  char line[256];
  unsigned long free_pages = 0, kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    (void)std::sscanf(line, "HugePages_Free: %lu", &free_pages);
    (void)std::sscanf(line, "Hugepagesize: %lu kB", &kib);
  }
  std::fclose(file);
  return uint64_t{free_pages} * kib / 1024;
}

// Of any size.
bool has_free_huge_page() {
  std::error_code failed;
  for (const auto& size : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", failed)) {
    unsigned long free_pages = 0;
    std::ifstream(size.path() / "free_hugepages") >> free_pages;
    if (free_pages != 0) return true;
  }
  return false;
}

// Those that are online, "0-3,8", but for numbers that DPDK has no room for; else this thread's.
std::string processors() {
  std::string online, list;
  std::getline(std::ifstream("/sys/devices/system/cpu/online"), online);
  const auto add = [&list](unsigned first, unsigned last) {
    if (first >= RTE_MAX_LCORE) return;
    last = std::min(last, RTE_MAX_LCORE - 1u);
    list += (list.empty() ? "" : ",") + std::to_string(first) + "-" + std::to_string(last);
  };
  std::istringstream ranges(online);
  for (std::string range; std::getline(ranges, range, ',');) {
    unsigned first = 0, last = 0;
    const int numbers = std::sscanf(range.c_str(), "%u-%u", &first, &last);
    if (numbers > 0) add(first, numbers == 2 ? last : first);
  }
  cpu_set_t own;
  if (list.empty() && pthread_getaffinity_np(pthread_self(), sizeof own, &own) == 0)
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &own)) add(cpu, cpu);
  return list;
}

bool wants_huge_pages(const Options& options) {
  return options.huge == HugePages::always ||
         (options.huge == HugePages::automatic &&
          free_huge_mb() >= options.memory_mb.value_or(kMemory_mb));
}

std::vector<std::string> arguments_of(const Options& options) {
  std::vector<std::string> words = {"weft", "--no-telemetry", "--log-level=*:error"};
  // PCI devices are probed later, by name only: the EAL would probe all devices with a DPDK driver,
  // so its allow-list has one address that no machine has.
  const bool has_pci = access("/sys/bus/pci/devices", R_OK) == 0;
  words.emplace_back(has_pci ? "--allow=pci:ffff:ff:1f.7" : "--no-pci");
  const bool huge = wants_huge_pages(options);
  // No files that outlive a killed process, no other process to meet; but net_tap does not start
  // without a place where others could.
  const bool is_tap = options.device.rfind("net_tap", 0) == 0;
  if (is_tap) words.push_back("--file-prefix=weft-" + std::to_string(getpid()));
  if (huge) {
    words.emplace_back(is_tap ? "--huge-unlink" : "--in-memory");
  } else {
    if (!is_tap) words.emplace_back("--no-shconf");
    const uint32_t mb = options.memory_mb.value_or(kMemory_mb);
    words.insert(words.end(), {"--no-huge", "-m", std::to_string(mb)});
  }
  if (options.is_pci && !huge) words.emplace_back("--iova-mode=va");
  // One "lcore" that is any processor: threads are the application's business.
  words.push_back("--lcores=0@(" + processors() + ")");
  std::istringstream more(options.eal_arguments);
  for (std::string word; more >> word;) words.push_back(word);
  return words;
}

Result<void> init(const Options& options) {
  std::vector<std::string> words = arguments_of(options);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  cpu_set_t affinity;
  const bool known = pthread_getaffinity_np(pthread_self(), sizeof affinity, &affinity) == 0;
  const NoSigpipe on_its_threads;
  const int result = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  if (known) (void)pthread_setaffinity_np(pthread_self(), sizeof affinity, &affinity);
  if (result >= 0) return {};
  std::string all;
  for (const std::string& word : words) all += " " + word;
  return Error{Code::io_error, std::string("dpdk: the EAL did not start: ") +
                                   rte_strerror(rte_errno) + " (arguments:" + all +
                                   "); it starts once in a process, so another try, say with "
                                   "dpdk.huge=0 or another dpdk.memory, needs a new one"};
}

// What the first device of this process has decided for all of them.
struct Shared {
  bool huge;
  uint32_t memory_mb;
  std::string eal_arguments;
};

// Error: a key of a later device asks for something else.
Result<void> agrees(const Options& options, const Shared& shared) {
  const auto refused = [](const std::string& key, const std::string& now) {
    return Error{Code::invalid_argument,
                 "dpdk." + key + ": DPDK runs in this process already, " + now +
                     ", and starts only once: leave the key out, or open the device that needs "
                     "it first"};
  };
  const bool huge = options.huge == HugePages::always;
  if (options.huge != HugePages::automatic && huge != shared.huge)
    return refused(huge ? "huge=1" : "huge=0",
                   shared.huge ? "with huge pages" : "without huge pages");
  const uint32_t mb = options.memory_mb.value_or(shared.memory_mb);
  if (!shared.huge && mb != shared.memory_mb)
    return refused("memory=" + std::to_string(mb),
                   "with dpdk.memory=" + std::to_string(shared.memory_mb));
  if (!options.eal_arguments.empty() && options.eal_arguments != shared.eal_arguments)
    return refused("eal=" + options.eal_arguments, shared.eal_arguments.empty()
                                                       ? "without such arguments"
                                                       : "with dpdk.eal=" + shared.eal_arguments);
  return {};
}

}  // namespace

Result<void> start_eal(const Options& options) {
  static const pid_t process = getpid();
  if (getpid() != process)
    return Error{Code::permission_denied,
                 "dpdk: this process was forked from one that uses DPDK, which works in that one "
                 "only: open dpdk devices after fork(), or in a new program"};
  static std::mutex mutex;
  static std::optional<Result<void>> outcome;  // DPDK cannot be started twice
  static Shared shared;
  const std::lock_guard<std::mutex> lock(mutex);
  if (outcome) return *outcome ? agrees(options, shared) : *outcome;
  if (options.huge == HugePages::always && !has_free_huge_page())
    return Error{Code::no_memory,
                 "dpdk.huge=1: there are no free huge pages; as root: echo 220 > "
                 "/proc/sys/vm/nr_hugepages, or leave the key out"};
  outcome = init(options);
  if (*outcome && rte_eal_has_hugepages() == 0 && options.huge != HugePages::never)
    base::log(base::Subsystem::port, LogLevel::info, [] {
      return std::string(
          "dpdk: without huge pages, since there are no free ones: as root, echo 220 > "
          "/proc/sys/vm/nr_hugepages");
    });
  shared = {rte_eal_has_hugepages() != 0, options.memory_mb.value_or(kMemory_mb),
            options.eal_arguments};
  return *outcome;
}

}  // namespace weft::port::dpdk
