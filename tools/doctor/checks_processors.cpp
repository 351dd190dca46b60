// SPDX-License-Identifier: BSD-3-Clause
// Cores, the limit of a container on their time, clock rate, the clock itself, and instructions for
// the ICRC.
#include <algorithm>
#include <sstream>

#include "tools/doctor/checks.hpp"

namespace weft::doctor {

namespace {

constexpr const char* kAll = "every software port";

// "0-3,8": 5.
uint64_t count_of_list(const std::string& list) {
  uint64_t count = 0;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    unsigned long first = 0, last = 0;
    const int read = std::sscanf(range.c_str(), "%lu-%lu", &first, &last);
    if (read == 1) last = first;
    if (read >= 1 && last >= first) count += last - first + 1;
  }
  return count;
}

Finding cores(const Machine& machine) {
  const std::string list =
      machine.field("/proc/self/status", "Cpus_allowed_list:").value_or("unknown");
  Finding f{"cores", kAll, list, {}, {}};
  const uint64_t count = count_of_list(list);
  if (count == 1) {
    f.change = "let the process have two cores or more (taskset, cpuset, --cpuset-cpus)";
    f.gain =
        "each packet of a process on the same core waits for a switch of threads, microseconds "
        "instead of tenths of one over shm";
  }
  return f;
}

// The folder of this process below `/sys/fs/cgroup`, of cgroup v2.
std::string cgroup(const Machine& machine) {
  const std::string own = machine.field("/proc/self/cgroup", "0::").value_or("/");
  return machine.has("/sys/fs/cgroup" + own + "/cpu.max") ? "/sys/fs/cgroup" + own
                                                          : "/sys/fs/cgroup";
}

std::vector<Finding> quota(const Machine& machine) {
  const std::optional<std::string> limit = machine.read(cgroup(machine) + "/cpu.max");
  double share = 0, period = 0;
  if (!limit || std::sscanf(limit->c_str(), "%lf %lf", &share, &period) != 2 || period <= 0)
    return {};
  std::ostringstream found;
  found << share / period << " cores' time, in periods of " << period / 1000 << " ms";
  return {{"limit of the processor's time", kAll, found.str(),
           "raise or drop the limit of the container (--cpus, resources.limits.cpu)",
           "a process that polls uses its time up and then stands still until the period ends, up "
           "to " +
               std::to_string(static_cast<int>(period / 1000)) + " ms"}};
}

std::vector<Finding> governor(const Machine& machine) {
  const std::string folder = "/sys/devices/system/cpu/";
  std::string slow;
  bool any = false;
  for (const std::string& name : machine.list(folder)) {
    const auto governor = machine.read(folder + name + "/cpufreq/scaling_governor");
    if (!governor) continue;
    any = true;
    if (*governor != "performance" && slow.find(*governor) == slow.npos)
      slow += (slow.empty() ? "" : ", ") + *governor;
  }
  if (!any) return {};
  if (slow.empty()) return {{"governor of the clock rate", kAll, "performance", {}, {}}};
  const auto least = machine.number(folder + "cpu0/cpufreq/cpuinfo_min_freq");
  const auto most = machine.number(folder + "cpu0/cpufreq/cpuinfo_max_freq");
  std::string gain = "a core that has rested starts at its full rate";
  if (least && most && *least != 0)
    gain += ", " + std::to_string(*most / *least) + " times its lowest";
  return {{"governor of the clock rate", kAll, slow,
           "as root, cpupower frequency-set -g performance", gain + ": first packets are faster"}};
}

std::vector<Finding> clock(const Machine& machine) {
  const auto source =
      machine.read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return {};
  Finding f{"clock", kAll, *source, {}, {}};
  const auto is = [&](const char* name) { return *source == name; };
  if (!is("tsc") && !is("kvm-clock") && !is("hyperv_clocksource_tsc_page") &&
      !is("arch_sys_counter")) {
    f.change = "boot with tsc=reliable, or choose a type of virtual machine that has the TSC";
    f.gain = "a device reads the clock in each turn; " + *source + " makes that a system call";
  }
  return {f};
}

std::vector<Finding> icrc(const Machine& machine) {
  const auto flags = machine.field("/proc/cpuinfo", "flags");
  if (!flags) return {};
  const auto has = [&](const std::string& name) {
    return (*flags + " ").find(" " + name + " ") != std::string::npos;
  };
  Finding f{"instructions for the ICRC", "roce, srd over every port but shm", {}, {}, {}};
  if (has("vpclmulqdq")) {
    f.found = "vpclmulqdq";
  } else if (has("pclmulqdq")) {
    f.found = "pclmulqdq";
  } else {
    f.found = "none";
    f.change = "choose a processor, or a CPU model of the virtual machine, that has pclmulqdq";
    f.gain =
        "the sum over each packet is folded, not looked up byte by byte: about 20 times faster";
  }
  return {f};
}

}  // namespace

std::vector<Finding> check_processors(const Machine& machine) {
  std::vector<Finding> all{cores(machine)};
  for (const auto& check : {quota, governor, clock, icrc})
    for (Finding& finding : check(machine)) all.push_back(std::move(finding));
  return all;
}

}  // namespace weft::doctor
