// SPDX-License-Identifier: BSD-3-Clause
// See ring.hpp. The layout of a slot is that of packet(7) and Documentation/networking/packet_mmap.
#include "providers/port/af_packet/ring.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "lib/base/kernel/socket.hpp"

namespace weft::port::af_packet {
namespace {

constexpr uint32_t kSlotHeaders = 256;      // what the kernel puts before a frame, and room
constexpr uint32_t kLongest = 65536 + 128;  // a train with its headers

// struct virtio_net_hdr, whose header is no C++: what offloads the frame still waits for.
struct NetHeader {
  uint8_t flags, gso_type;
  uint16_t header_length, gso_size, checksum_start, checksum_offset;
};
constexpr uint8_t kGsoUdp = 5;

Error failed(const char* what) {
  const int error = errno;
  if (error == EPERM || error == EACCES)
    return {
        Code::permission_denied,
        "af_packet: raw frames need CAP_NET_RAW: run as root, or setcap cap_net_raw+ep PROGRAM"};
  return {error == ENOMEM ? Code::no_memory : Code::io_error,
          std::string("af_packet: ") + what + ": " + std::strerror(error)};
}

// Keeps UDP to the port, ARP, and Neighbour Discovery; all without a VLAN tag. Jumps count from the
// next instruction.
std::vector<sock_filter> filter_of(uint16_t udp_port) {
  constexpr auto kByte = BPF_LD | BPF_B | BPF_ABS;
  constexpr auto kHalf = BPF_LD | BPF_H | BPF_ABS;
  constexpr auto kEqual = BPF_JMP | BPF_JEQ | BPF_K;
  return {
      BPF_STMT(kByte, static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)),
      BPF_JUMP(kEqual, 0, 0, 16),  // to "no"
      BPF_STMT(kHalf, 12),         // EtherType
      BPF_JUMP(kEqual, ETH_P_ARP, 13, 0),
      BPF_JUMP(kEqual, ETH_P_IP, 0, 4),
      BPF_STMT(kByte, 23),  // protocol
      BPF_JUMP(kEqual, IPPROTO_UDP, 0, 11),
      BPF_STMT(kHalf, 36),  // destination port, behind 20 bytes of IPv4
      BPF_JUMP(kEqual, udp_port, 8, 9),
      BPF_JUMP(kEqual, ETH_P_IPV6, 0, 8),
      BPF_STMT(kByte, 20),  // next header
      BPF_JUMP(kEqual, IPPROTO_UDP, 0, 2),
      BPF_STMT(kHalf, 56),  // destination port, behind 40 bytes of IPv6
      BPF_JUMP(kEqual, udp_port, 3, 4),
      BPF_JUMP(kEqual, IPPROTO_ICMPV6, 0, 3),
      BPF_STMT(kByte, 54),  // type: solicitation 135, advertisement 136
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 135, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0xFFFFFFFF),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
}

template <class T>
bool set(int socket, int level, int option, const T& value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

// Everything that must be there before the first frame comes.
bool prepare(int socket, uint16_t udp_port, const tpacket_req& ring) {
  const std::vector<sock_filter> code = filter_of(udp_port);
  const sock_fprog filter = {static_cast<unsigned short>(code.size()),
                             const_cast<sock_filter*>(code.data())};
  return set(socket, SOL_SOCKET, SO_ATTACH_FILTER, filter) &&
         set(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) &&
         set(socket, SOL_PACKET, PACKET_VERSION, static_cast<int>(TPACKET_V2)) &&
         set(socket, SOL_PACKET, PACKET_VNET_HDR, 1) &&
         set(socket, SOL_PACKET, PACKET_COPY_THRESH, 1) &&
         set(socket, SOL_PACKET, PACKET_RX_RING, ring);
}

}  // namespace

Ring& Ring::operator=(Ring&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  std::swap(slot_size_, other.slot_size_);
  std::swap(long_, other.long_);
  return *this;
}

Ring::~Ring() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
  if (socket_ >= 0) ::close(socket_);
}

Result<Ring> Ring::open(const ethernet::Interface& interface, uint16_t udp_port) {
  Ring ring;
  ring.socket_ = base::kernel_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (ring.socket_ < 0) return failed("socket");
  ring.slot_size_ = std::bit_ceil(std::min(interface.mtu, 9216u) + kSlotHeaders);
  const uint32_t block = std::max(ring.slot_size_, 1u << 16);
  ring.size_ = size_t{kSlots} * ring.slot_size_;
  const tpacket_req request = {block, static_cast<unsigned>(ring.size_ / block), ring.slot_size_,
                               kSlots};
  if (!prepare(ring.socket_, udp_port, request)) return failed("ring");
  void* const memory =
      ::mmap(nullptr, ring.size_, PROT_READ | PROT_WRITE, MAP_SHARED, ring.socket_, 0);
  if (memory == MAP_FAILED) return failed("mmap");
  ring.memory_ = static_cast<std::byte*>(memory);
  ring.long_.resize(kLongest);
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(ETH_P_ALL);
  where.sll_ifindex = interface.index;
  if (::bind(ring.socket_, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0)
    return failed("bind");
  return ring;
}

std::byte* Ring::slot(uint32_t index) const noexcept {
  return memory_ + size_t{index % kSlots} * slot_size_;
}

namespace {

std::atomic_ref<uint32_t> status_of(std::byte* slot) {
  return std::atomic_ref<uint32_t>(reinterpret_cast<tpacket2_hdr*>(slot)->tp_status);
}

}  // namespace

bool Ring::has_frame() const noexcept {
  if (lent_ == kSlots) return false;
  const uint32_t status = status_of(slot(next_)).load(std::memory_order_acquire);
  const bool needs_long = (status & TP_STATUS_COPY) != 0;
  return (status & TP_STATUS_USER) != 0 && !(needs_long && long_slot_ != kSlots);
}

bool Ring::next(Arrival& arrival) noexcept {
  if (!has_frame()) return false;
  std::byte* const at = slot(next_);
  const auto& header = *reinterpret_cast<const tpacket2_hdr*>(at);
  NetHeader net;
  arrival = {at + header.tp_mac, header.tp_snaplen, 0,
             (header.tp_status & TP_STATUS_CSUMNOTREADY) != 0};
  if ((header.tp_status & TP_STATUS_COPY) != 0) {
    const ssize_t got = ::recv(socket_, long_.data(), long_.size(), 0);
    arrival.bytes = long_.data() + sizeof net;
    arrival.length = static_cast<uint32_t>(std::max<ssize_t>(got, sizeof net) - sizeof net);
    long_slot_ = next_ % kSlots;
  }
  std::memcpy(&net, arrival.bytes - sizeof net, sizeof net);
  if (net.gso_type == kGsoUdp) arrival.segment = net.gso_size;
  ++next_;
  ++lent_;
  return true;
}

void Ring::release(size_t count) noexcept {
  for (; count > 0; --count, ++oldest_, --lent_) {
    if (oldest_ % kSlots == long_slot_) long_slot_ = kSlots;
    status_of(slot(oldest_)).store(TP_STATUS_KERNEL, std::memory_order_release);
  }
}

uint64_t Ring::take_drops() const noexcept {
  tpacket_stats stats{};
  socklen_t length = sizeof stats;
  (void)::getsockopt(socket_, SOL_PACKET, PACKET_STATISTICS, &stats, &length);
  return stats.tp_drops;
}

}  // namespace weft::port::af_packet
