// SPDX-License-Identifier: BSD-3-Clause
// Capabilities, files that may be open, reading another process's memory, and RDMA devices.
#include <charconv>
#include <cstdlib>

#include "tools/doctor/checks.hpp"

namespace weft::doctor {

namespace {

constexpr uint64_t kLeastFiles = 1024;

struct Capability {
  int bit;
  const char* name;
};
constexpr Capability kNetAdmin{12, "CAP_NET_ADMIN"}, kNetRaw{13, "CAP_NET_RAW"},
    kSysPtrace{19, "CAP_SYS_PTRACE"}, kSysAdmin{21, "CAP_SYS_ADMIN"};

bool may(const Machine& machine, const Capability& capability) {
  const std::string held = machine.field("/proc/self/status", "CapEff:").value_or("0");
  return (std::strtoull(held.c_str(), nullptr, 16) >> capability.bit & 1) != 0;
}

Finding right_to(const Machine& machine, const char* port,
                 std::initializer_list<Capability> needed) {
  Finding f{std::string("right to use ") + port, port, "there", {}, {}};
  std::string missing, given;
  for (const Capability& capability : needed)
    if (!may(machine, capability)) {
      missing += (missing.empty() ? "" : ", ") + std::string(capability.name);
      given += std::string(" --cap-add=") + (capability.name + 4);
    }
  if (missing.empty()) return f;
  f.found = "lacks " + missing;
  f.change = "run as root, or give the program the capability (setcap; a container:" + given + ")";
  f.gain = std::string(port) + " devices open; udp needs no right";
  return f;
}

// roce+shm copies large payloads once, from the sender's memory, where that is permitted.
Finding reading_memory(const Machine& machine) {
  Finding f{"reading the memory of one's other processes", "shm", "permitted", {}, {}};
  const bool filtered = machine.field("/proc/self/status", "Seccomp:").value_or("0") == "2";
  const auto scope = machine.number("/proc/sys/kernel/yama/ptrace_scope").value_or(0);
  if (may(machine, kSysPtrace)) return f;
  if (scope > 1) {
    f.found = "ptrace_scope is " + std::to_string(scope);
    f.change = "as root, sysctl -w kernel.yama.ptrace_scope=1";
  } else if (filtered) {
    f.found = "a seccomp filter may forbid process_vm_readv";
    f.change = "of a container, --cap-add=SYS_PTRACE";
  } else {
    return f;
  }
  f.gain = "payloads of 16 KiB and more are copied once instead of twice";
  return f;
}

Finding open_files(const Machine& machine) {
  const std::string limit = machine.field("/proc/self/limits", "Max open files").value_or("0");
  uint64_t files = 0;
  std::from_chars(limit.data(), limit.data() + limit.size(), files);
  Finding f{"files open at a time", "every software port", std::to_string(files), {}, {}};
  if (files < kLeastFiles) {
    f.change =
        "ulimit -n " + std::to_string(kLeastFiles) + ", or nofile in /etc/security/limits.conf";
    f.gain = "srd+udp has a socket for each of its paths, shm one for each process it talks to";
  }
  return f;
}

Finding rdma_devices(const Machine& machine) {
  std::string found;
  for (const std::string& name : machine.list("/sys/class/infiniband"))
    found += (found.empty() ? "" : ", ") + name;
  Finding f{"RDMA devices", "ibverbs", found.empty() ? "none" : found, {}, {}};
  if (!found.empty() && machine.list("/dev/infiniband").empty()) {
    f.found += ", without /dev/infiniband";
    f.change = "modprobe ib_uverbs rdma_ucm; of a container, --device=/dev/infiniband";
    f.gain = "ibverbs devices open";
  }
  return f;
}

}  // namespace

std::vector<Finding> check_rights(const Machine& machine) {
  return {right_to(machine, "af_packet", {kNetRaw}),
          right_to(machine, "af_xdp", {kNetAdmin, kNetRaw, kSysAdmin}), reading_memory(machine),
          open_files(machine), rdma_devices(machine)};
}

}  // namespace weft::doctor
