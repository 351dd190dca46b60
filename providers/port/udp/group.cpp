// SPDX-License-Identifier: BSD-3-Clause
// The registry is the kernel's table of abstract unix sockets: no file, nothing stale.
#include "providers/port/udp/group.hpp"

#include <linux/filter.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace weft::port::udp {
namespace {

constexpr uint8_t kFirstSlot = 1;   // 0 holds QPN 0 and 1
constexpr uint8_t kLastSlot = 254;  // 255 holds the multicast QPN
constexpr uint32_t kRefreshAfter = 1024;
constexpr uint32_t kMagic = 0x77750001;

// Precedes the bytes of a forwarded message.
struct ForwardHeader {
  uint32_t magic = kMagic;
  uint32_t segment = 0;
  uint16_t first_id = 0;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  Gid source;
};

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;
};

UnixAddress slot_address(const std::string& prefix, uint8_t slot) noexcept {
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  const int n = std::snprintf(result.address.sun_path + 1, sizeof result.address.sun_path - 1,
                              "%s%u", prefix.c_str(), slot);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                         static_cast<size_t>(std::max(n, 0)));
  return result;
}

// True if the message came from a process of our user.
bool from_our_user(msghdr& header) noexcept {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender;
    std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
    return sender.uid == ::geteuid();
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<AddressGroup>> AddressGroup::join(const LocalAddress& local, uint8_t first,
                                                         uint8_t last) {
  std::unique_ptr<AddressGroup> group(new AddressGroup);
  group->prefix_ = "weft-udp/" + std::to_string(::geteuid()) + "/" + text_of(local.gid) + "/" +
                   std::to_string(local.port) + "/";
  group->socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = group->fd();
  if (fd < 0)
    return Error{Code::io_error,
                 std::string("cannot create a unix socket: ") + std::strerror(errno)};
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  const int buffer = 1 << 20;
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  for (uint32_t slot = std::max(first, kFirstSlot); slot <= std::min(last, kLastSlot); ++slot) {
    const UnixAddress address = slot_address(group->prefix_, static_cast<uint8_t>(slot));
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address.address), address.length) == 0) {
      group->slot_ = static_cast<uint8_t>(slot);
      return group;
    }
    if (errno != EADDRINUSE)
      return Error{Code::io_error,
                   "cannot claim a slot of " + text_of(local.gid) + ": " + std::strerror(errno)};
  }
  return Error{Code::no_memory,
               "all slots of " + text_of(local.gid) +
                   " that this device may have are taken: use another address or close a device"};
}

void AddressGroup::steer(int udp) const noexcept {
  // Sockets join the group in the order of their slots, unless one died since.
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 5),         // top byte of the QPN; too short: socket 0
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0),  // QPN 1 and the like: socket 0
      BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, kFirstSlot),
      BPF_STMT(BPF_RET | BPF_A, 0),  // out of range: the kernel hashes
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog program = {sizeof code / sizeof code[0], code};
  (void)::setsockopt(udp, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}

bool AddressGroup::forward(uint8_t slot, const Message& message, uint32_t length) noexcept {
  if (until_refresh_ == 0) {
    ownerless_.reset();
    lowest_ = kFirstSlot;
    until_refresh_ = kRefreshAfter;
  }
  --until_refresh_;
  const uint64_t frames = (length + message.segment - 1) / message.segment;
  const auto try_slot = [&](uint8_t to) {
    const Sent sent = send_to(to, message, length);
    if (sent == Sent::yes) counters_.forwarded += frames;
    if (sent == Sent::dropped) counters_.forward_drops += frames;
    return sent != Sent::no_such_slot;
  };
  if (slot >= kFirstSlot && slot <= kLastSlot && !ownerless_[slot]) {
    if (try_slot(slot)) return true;
    ownerless_.set(slot);
  }
  for (; lowest_ < slot_; ++lowest_)
    if (try_slot(lowest_)) return true;
  return false;
}

AddressGroup::Sent AddressGroup::send_to(uint8_t slot, const Message& message,
                                         uint32_t length) noexcept {
  ForwardHeader head;
  head.segment = message.segment;
  head.first_id = message.next_id;
  head.source_port = message.path.source_port;
  head.traffic_class = message.path.traffic_class;
  head.source = message.path.source;
  iovec pieces[2] = {{&head, sizeof head}, {message.bytes + message.offset, length}};
  UnixAddress to = slot_address(prefix_, slot);
  msghdr header{};
  header.msg_name = &to.address;
  header.msg_namelen = to.length;
  header.msg_iov = pieces;
  header.msg_iovlen = 2;
  if (::sendmsg(fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::yes;
  return errno == ECONNREFUSED || errno == ENOENT ? Sent::no_such_slot : Sent::dropped;
}

bool AddressGroup::receive(Message& message, size_t capacity) noexcept {
  ForwardHeader head;
  iovec pieces[2] = {{&head, sizeof head}, {message.bytes, capacity}};
  // Room for the sender's credentials alone: attached descriptors are not installed.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr header{};
  header.msg_iov = pieces;
  header.msg_iovlen = 2;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return false;
  message.length = message.offset = 0;
  const bool whole = n > static_cast<ssize_t>(sizeof head) && (header.msg_flags & MSG_TRUNC) == 0;
  if (!whole || !from_our_user(header) || head.magic != kMagic || head.segment == 0) {
    ++counters_.forward_refused;
    return true;
  }
  ++counters_.forward_received;
  message.length = static_cast<uint32_t>(n) - static_cast<uint32_t>(sizeof head);
  message.ours_until = message.length;  // never forwarded twice
  message.segment = head.segment;
  message.next_id = head.first_id;
  message.path.source = head.source;
  message.path.source_port = head.source_port;
  message.path.traffic_class = head.traffic_class;
  return true;
}

}  // namespace weft::port::udp
