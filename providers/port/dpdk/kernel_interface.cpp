// SPDX-License-Identifier: BSD-3-Clause
// See kernel_interface.hpp.
#include "providers/port/dpdk/kernel_interface.hpp"

#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "lib/base/kernel/socket.hpp"

namespace weft::port::dpdk {
namespace {

constexpr uint32_t kAround = 256;  // of a slot: the kernel's header, and ours up to the payload
constexpr uint32_t kRingBytes = 4u << 20;  // of each direction

}  // namespace

bool is_af_packet(const Options& options) { return options.device.rfind("net_af_packet", 0) == 0; }

void complete_af_packet(Options& options) {
  const uint32_t slot = std::bit_ceil(options.mtu + kAround);
  add_device_argument(options, "framesz", std::to_string(slot));
  add_device_argument(options, "blocksz", std::to_string(std::max(slot, 4096u)));
  add_device_argument(options, "framecnt", std::to_string(kRingBytes / slot));
  add_device_argument(options, "qpairs", std::to_string(options.queues));
}

uint32_t least_buffer(const Options& options) {
  if (!is_af_packet(options)) return 0;
  return static_cast<uint32_t>(std::atoi(device_argument(options, "framesz").c_str()));
}

bool needs_huge_pages(const Options& options) { return options.device.rfind("net_af_xdp", 0) == 0; }

bool lacks_rights(const Options& options) {
  return ::geteuid() != 0 &&
         is_one_of(options, {"net_af_packet", "net_af_xdp", "net_pcap", "net_tap"});
}

uint32_t interface_mtu(const Options& options) {
  const std::string name = device_argument(options, "iface");
  if (name.empty() || name.size() >= IFNAMSIZ) return 0;
  const int fd = base::kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC);
  if (fd < 0) return 0;
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), name.size());
  const bool known = ::ioctl(fd, SIOCGIFMTU, &request) == 0;
  (void)::close(fd);
  return known && request.ifr_mtu > 0 ? static_cast<uint32_t>(request.ifr_mtu) : 0;
}

uint32_t interface_index(const Options& options) {
  return ::if_nametoindex(device_argument(options, "iface").c_str());
}

bool is_over_interface(const Options& options) {
  return is_one_of(options, {"net_af_packet", "net_af_xdp", "net_pcap"}) &&
         !device_argument(options, "iface").empty();
}

int hold_multicast(const Options& options) {
  const int fd = base::kernel_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC);  // 0: it receives nothing
  if (fd < 0) return -1;
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(interface_index(options));
  all.mr_type = PACKET_MR_ALLMULTI;
  if (::setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) == 0) return fd;
  (void)::close(fd);
  return -1;
}

}  // namespace weft::port::dpdk
