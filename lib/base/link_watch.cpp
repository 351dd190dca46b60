// SPDX-License-Identifier: BSD-3-Clause
// See link_watch.hpp; the messages are those of rtnetlink(7).
#include "lib/base/link_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/kernel/socket.hpp"
#include "lib/base/membership.hpp"

namespace weft::base {
namespace {

// Up, with carrier.
bool works(unsigned flags) noexcept { return (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0; }

bool works_now(uint32_t interface) noexcept {
  ifreq request{};
  if (::if_indextoname(interface, request.ifr_name) == nullptr) return false;
  const int any = base::kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC);
  const bool known = ::ioctl(any, SIOCGIFFLAGS, &request) == 0;
  ::close(any);
  return known && works(static_cast<unsigned short>(request.ifr_flags));
}

// Whether the attributes of an ifaddrmsg contain the address.
bool names(const nlmsghdr& header, const ifaddrmsg& body, const Gid& address) noexcept {
  if (body.ifa_family != (address.is_ipv4() ? AF_INET : AF_INET6)) return false;
  const size_t size = address.is_ipv4() ? 4 : 16;
  // IFA_LOCAL is the local address if both exist (point to point); IPv6 often has only IFA_ADDRESS.
  const unsigned kind = address.is_ipv4() ? IFA_LOCAL : IFA_ADDRESS;
  auto left = static_cast<int>(IFA_PAYLOAD(&header));
  for (const rtattr* at = IFA_RTA(&body); RTA_OK(at, left); at = RTA_NEXT(at, left))
    if (at->rta_type == kind && RTA_PAYLOAD(at) == size)
      return std::memcmp(RTA_DATA(at), address.bytes.data() + 16 - size, size) == 0;
  return false;
}

}  // namespace

LinkWatch::LinkWatch(uint32_t interface, const Gid& address) noexcept
    : interface_(interface), address_(address) {
  fd_ = base::kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  sockaddr_nl all{};
  all.nl_family = AF_NETLINK;
  all.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (fd_ >= 0 && ::bind(fd_, reinterpret_cast<const sockaddr*>(&all), sizeof all) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
  up_ = works_now(interface_);
  there_ = interface_of(address_) == interface_;
}

LinkWatch::~LinkWatch() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<EventType> LinkWatch::note_up(bool up) noexcept {
  if (up == up_) return {};
  up_ = up;
  return up ? EventType::port_active : EventType::port_error;
}

// The kernel sends the same message when only a lifetime changes.
std::optional<EventType> LinkWatch::note_address(bool there) noexcept {
  if (there == there_) return {};
  there_ = there;
  return EventType::gid_change;
}

std::optional<EventType> LinkWatch::next() noexcept {
  for (;;) {
    while (begin_ < end_)
      if (const auto event = parse_one()) return event;
    if (!fetch()) break;
  }
  if (!lost_some_) return {};
  // The messages still queued are older than the lost ones.
  if (const auto event = note_up(works_now(interface_))) return event;
  lost_some_ = false;
  return note_address(interface_of(address_) == interface_);
}

// False: no message is queued.
bool LinkWatch::fetch() noexcept {
  if (fd_ < 0) return false;
  const ssize_t got = ::recv(fd_, messages_.data(), messages_.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0) {
    lost_some_ = lost_some_ || errno == ENOBUFS;
    return errno == ENOBUFS || errno == EINTR;
  }
  begin_ = 0;
  end_ = static_cast<size_t>(got);
  if (end_ > messages_.size()) {
    end_ = 0;
    lost_some_ = true;
  }
  return true;
}

std::optional<EventType> LinkWatch::parse_one() noexcept {
  const auto* const header = reinterpret_cast<const nlmsghdr*>(messages_.data() + begin_);
  if (!NLMSG_OK(header, end_ - begin_)) {
    begin_ = end_;
    return {};
  }
  begin_ += std::min<size_t>(NLMSG_ALIGN(header->nlmsg_len), end_ - begin_);
  const void* const body = NLMSG_DATA(header);
  switch (header->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK: {
      const auto& link = *static_cast<const ifinfomsg*>(body);
      // A bridge's port has messages of another family too.
      if (link.ifi_family != AF_UNSPEC || static_cast<uint32_t>(link.ifi_index) != interface_)
        return {};
      return note_up(header->nlmsg_type == RTM_NEWLINK && works(link.ifi_flags));
    }
    case RTM_NEWADDR:
    case RTM_DELADDR: {
      const auto& entry = *static_cast<const ifaddrmsg*>(body);
      if (entry.ifa_index != interface_ || !names(*header, entry, address_)) return {};
      return note_address(header->nlmsg_type == RTM_NEWADDR);
    }
    default:
      return {};
  }
}

}  // namespace weft::base
