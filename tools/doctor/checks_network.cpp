// SPDX-License-Identifier: BSD-3-Clause
// MTU and offloads of the interfaces that are up, and how large a socket's buffer may be.
#include <bit>

#include "tools/doctor/checks.hpp"

namespace weft::doctor {

namespace {

constexpr uint64_t kHeaders = 20 + 8 + 12 + 28 + 4;  // IPv4, UDP, BTH, the longest of RC, ICRC
constexpr uint64_t kWholeMtu = 4096 + 104;           // for the path MTU 4096, with room for IPv6
constexpr uint64_t kBuffer = 4 << 20;                // what roce+udp asks for

bool is_up(const Machine& machine, const std::string& interface) {
  const std::string state =
      machine.read("/sys/class/net/" + interface + "/operstate").value_or("down");
  return state == "up" || state == "unknown";
}

Finding mtu_of(const Machine& machine, const std::string& interface) {
  const uint64_t mtu = machine.number("/sys/class/net/" + interface + "/mtu").value_or(0);
  const uint64_t path =
      mtu > kHeaders ? std::min<uint64_t>(4096, std::bit_floor(mtu - kHeaders)) : 0;
  Finding f{"MTU of " + interface,
            "udp, af_packet, af_xdp",
            std::to_string(mtu) + ", a path MTU of " + std::to_string(path),
            {},
            {}};
  if (path < 4096) {
    f.change = "where switches and the other side permit it, as root, ip link set " + interface +
               " mtu " + std::to_string(kWholeMtu) + " or 9000";
    f.gain = "a path MTU of 4096: large messages have " +
             (path == 0 ? std::string("packets at all")
                        : "1/" + std::to_string(4096 / path) + " of the packets");
  }
  return f;
}

std::vector<Finding> offloads_of(const Machine& machine, const std::string& interface) {
  std::string found, change;
  for (const auto& [name, on] : machine.offloads(interface)) {
    found += (found.empty() ? "" : ", ") + name + (on ? " on" : " off");
    if (!on)
      change += std::string(" ") + (name.find("segmentation") != name.npos ? "gso" : "gro") + " on";
  }
  if (found.empty()) return {};
  Finding f{"offloads of " + interface, "udp", found, {}, {}};
  if (!change.empty()) {
    f.change = "as root, ethtool -K " + interface + change;
    f.gain = "up to 64 packets are one system call and one pass through the kernel";
  }
  return {f};
}

Finding buffers(const Machine& machine) {
  const uint64_t most = machine.number("/proc/sys/net/core/rmem_max").value_or(0);
  Finding f{"buffer of a socket, at most", "udp", std::to_string(most) + " bytes", {}, {}};
  if (most < kBuffer) {
    f.change = "as root, sysctl -w net.core.rmem_max=" + std::to_string(kBuffer);
    f.gain =
        "bursts of many senders are kept while the receiver does something else; processes "
        "with CAP_NET_ADMIN have that already";
  }
  return f;
}

}  // namespace

std::vector<Finding> check_network(const Machine& machine) {
  std::vector<Finding> all;
  for (const std::string& interface : machine.list("/sys/class/net")) {
    if (interface == "lo" || !is_up(machine, interface)) continue;
    all.push_back(mtu_of(machine, interface));
    for (Finding& finding : offloads_of(machine, interface)) all.push_back(std::move(finding));
  }
  all.push_back(buffers(machine));
  return all;
}

}  // namespace weft::doctor
