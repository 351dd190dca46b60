// SPDX-License-Identifier: BSD-3-Clause
// Starting DPDK's environment (EAL) inside a program that knows nothing of it.
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <optional>
#include <sstream>
#include <vector>

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

std::vector<std::string> arguments_of(const Options& options) {
  std::vector<std::string> words = {"weft", "--no-telemetry", "--log-level=*:error"};
  const bool is_pci = options.device.find(':') != std::string::npos;
  if (is_pci) {
    words.insert(words.end(), {"-a", options.device});
  } else {
    words.emplace_back("--no-pci");
  }
  const bool huge = options.huge == HugePages::always ||
                    (options.huge == HugePages::automatic && free_huge_mb() >= options.memory_mb);
  // No files that outlive a killed process, no other process to meet; but net_tap does not start
  // without a place where others could.
  const bool is_tap = options.device.rfind("net_tap", 0) == 0;
  if (is_tap) words.push_back("--file-prefix=weft-" + std::to_string(getpid()));
  if (huge) {
    words.emplace_back(is_tap ? "--huge-unlink" : "--in-memory");
  } else {
    if (!is_tap) words.emplace_back("--no-shconf");
    words.insert(words.end(), {"--no-huge", "-m", std::to_string(options.memory_mb)});
  }
  if (is_pci && !huge) words.emplace_back("--iova-mode=va");
  // One "lcore" that is any processor: threads are the application's business.
  words.push_back("--lcores=0@(0-" + std::to_string(sysconf(_SC_NPROCESSORS_CONF) - 1) + ")");
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
                                   "); try dpdk.huge=0, or another dpdk.memory"};
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
  const std::lock_guard<std::mutex> lock(mutex);
  if (!outcome) outcome = init(options);
  return *outcome;
}

}  // namespace weft::port::dpdk
