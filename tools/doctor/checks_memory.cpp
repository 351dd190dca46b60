// SPDX-License-Identifier: BSD-3-Clause
// Memory that may be locked, huge pages, the size of /dev/shm, and a container's limit.
#include <charconv>

#include "tools/doctor/checks.hpp"

namespace weft::doctor {

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLeastLocked = 64 * kMiB;  // UMEM of an XDP socket, a few regions
constexpr uint64_t kLeastShm = 32 * kMiB;     // flight records of a process, its open devices
constexpr uint64_t kLeastHuge = 220;          // what dpdk takes for its pools, pages of 2 MiB

std::string mib(uint64_t bytes) { return std::to_string(bytes / kMiB) + " MiB"; }

// The number that `text` begins with.
uint64_t leading_number(const std::string& text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Finding memlock(const Machine& machine) {
  const std::string limit = machine.field("/proc/self/limits", "Max locked memory").value_or("");
  Finding f{"memory that may be locked", "ibverbs, af_xdp", {}, {}, {}};
  if (limit.starts_with("unlimited")) {
    f.found = "unlimited";
    return f;
  }
  const uint64_t bytes = leading_number(limit);
  f.found = mib(bytes);
  if (bytes < kLeastLocked) {
    f.change =
        "ulimit -l unlimited, or memlock in /etc/security/limits.conf; --ulimit memlock=-1 of a "
        "container";
    f.gain = "regions larger than " + mib(bytes) + " can be registered on NICs";
  }
  return f;
}

Finding huge_pages(const Machine& machine) {
  const uint64_t pages =
      leading_number(machine.field("/proc/meminfo", "HugePages_Free:").value_or("0"));
  const uint64_t kib =
      leading_number(machine.field("/proc/meminfo", "Hugepagesize:").value_or("0"));
  Finding f{"free huge pages",
            "dpdk",
            std::to_string(pages) + " of " + std::to_string(kib) + " KiB",
            {},
            {}};
  if (pages * kib < kLeastHuge * 2048) {
    f.change = "as root, echo " + std::to_string(kLeastHuge) + " > /proc/sys/vm/nr_hugepages";
    f.gain =
        "NICs with DPDK need them where there is no IOMMU; devices of software work without them";
  }
  return f;
}

// Mounted with `size=`, or half of the memory, the kernel's default.
Finding shm(const Machine& machine) {
  const std::string mounts = machine.read("/proc/mounts").value_or("");
  Finding f{"/dev/shm", "every software port", {}, {}, {}};
  const size_t at = mounts.find(" /dev/shm tmpfs ");
  if (at == mounts.npos) {
    f.found = "not there";
    f.change = "mount -t tmpfs tmpfs /dev/shm";
    f.gain =
        "flight records for weft_postmortem are kept in memory, and processes of a user on "
        "this host know each other without a secret file";
    return f;
  }
  const std::string line = mounts.substr(at, mounts.find('\n', at) - at);
  const size_t size = line.find("size=");
  const uint64_t memory_kib =
      leading_number(machine.field("/proc/meminfo", "MemTotal:").value_or("0"));
  const uint64_t bytes =
      size == line.npos ? memory_kib * 1024 / 2 : leading_number(line.substr(size + 5)) * 1024;
  f.found = mib(bytes);
  if (bytes < kLeastShm) {
    f.change = "mount -o remount,size=64m /dev/shm; --shm-size=64m of a container";
    f.gain = "flight records of several processes fit";
  }
  return f;
}

std::vector<Finding> container_limit(const Machine& machine) {
  const std::string own = machine.field("/proc/self/cgroup", "0::").value_or("");
  for (const std::string& folder : {"/sys/fs/cgroup" + own, std::string("/sys/fs/cgroup")}) {
    const auto limit = machine.number(folder + "/memory.max");
    if (!limit) continue;
    Finding f{"limit of memory", "every software port", mib(*limit), {}, {}};
    if (*limit < 256 * kMiB) {
      f.change = "raise the container's limit (--memory, resources.limits.memory)";
      f.gain = "a pair of processes on shm shares 16 MiB of rings, which count here";
    }
    return {f};
  }
  return {};
}

}  // namespace

std::vector<Finding> check_memory(const Machine& machine) {
  std::vector<Finding> all{memlock(machine), huge_pages(machine), shm(machine)};
  for (Finding& finding : container_limit(machine)) all.push_back(std::move(finding));
  return all;
}

}  // namespace weft::doctor
