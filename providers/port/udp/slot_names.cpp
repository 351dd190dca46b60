// SPDX-License-Identifier: BSD-3-Clause
// See slot_names.hpp.
#include "providers/port/udp/slot_names.hpp"

#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/kernel/socket.hpp"

namespace weft::port::udp {
namespace {

constexpr Duration kAnswerLimit = Duration::from_s(5);

// One message of a word with a descriptor.
bool send_descriptor(int by, const SlotNames::Name* to, uint32_t word, int descriptor) noexcept {
  iovec piece = {&word, sizeof word};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr header{};
  if (to != nullptr) {
    header.msg_name = const_cast<sockaddr_un*>(&to->address);
    header.msg_namelen = to->length;
  }
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  return ::sendmsg(by, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace

Attached::Attached(iovec* pieces, size_t count) noexcept {
  header_.msg_iov = pieces;
  header_.msg_iovlen = count;
  header_.msg_control = control_;
  header_.msg_controllen = sizeof control_;
}

void Attached::take() noexcept {
  WEFT_DCHECK(!descriptor_ && !from_our_user_);
  for (cmsghdr* c = CMSG_FIRSTHDR(&header_); c != nullptr; c = CMSG_NXTHDR(&header_, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred sender;
      std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
      from_our_user_ = sender.uid == ::geteuid();
    } else if (c->cmsg_type == SCM_RIGHTS) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(c), sizeof descriptor);
      descriptor_ = Descriptor(descriptor);
    }
  }
}

SlotNames::SlotNames(const LocalAddress& local)
    : prefix_("weft-udp/" + std::to_string(::geteuid()) + "/" + text_of(local.gid) + "/" +
              std::to_string(local.port) + "/") {}

SlotNames::Name SlotNames::of(Slot slot) const noexcept {
  WEFT_DCHECK(slot >= kFirstSlot && slot <= kLastSlot);
  Name result;
  result.address.sun_family = AF_UNIX;
  const int n = std::snprintf(result.address.sun_path + 1, sizeof result.address.sun_path - 1,
                              "%s%u", prefix_.c_str(), slot);
  WEFT_DCHECK(n > 0 && static_cast<size_t>(n) < sizeof result.address.sun_path - 1);
  result.length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(n));
  return result;
}

bool SlotNames::is_alive(Slot slot) const noexcept {
  const Descriptor probe(base::kernel_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC));
  const Name to = of(slot);
  return ::connect(probe.fd(), reinterpret_cast<const sockaddr*>(&to.address), to.length) == 0 ||
         errno != ECONNREFUSED;
}

Result<Descriptor> SlotNames::ask_for_table(Slot mine, int from) const {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return Error{Code::io_error,
                 std::string("cannot create a unix socket: ") + std::strerror(errno)};
  const Descriptor here(ends[0]);
  const int on = 1;
  (void)::setsockopt(here.fd(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  uint32_t asked = 0;
  {
    const Descriptor theirs(ends[1]);
    for (uint32_t at = kFirstSlot; at <= kLastSlot; ++at) {
      const Name to = of(static_cast<Slot>(at));
      if (at != mine && send_descriptor(from, &to, kAskMagic, theirs.fd())) ++asked;
    }
  }
  if (asked == 0) return Descriptor{};
  const Instant end = base::wall_now() + kAnswerLimit;
  for (Instant now = base::wall_now(); now < end; now = base::wall_now()) {
    pollfd waiting{here.fd(), POLLIN, 0};
    (void)::poll(&waiting, 1, static_cast<int>((end - now).ns() / 1'000'000 + 1));
    uint32_t word = 0;
    iovec piece = {&word, sizeof word};
    Attached attached(&piece, 1);
    const ssize_t n = ::recvmsg(here.fd(), &attached.header(), MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n == 0) return Descriptor{};  // those that we asked have closed their sockets
    if (n < 0) continue;
    attached.take();
    if (attached.from_our_user() && attached.descriptor()) return attached.release();
  }
  const std::string address = prefix_.substr(0, prefix_.size() - 1);
  return Error{Code::busy, std::to_string(asked) + " devices have " + address +
                               " and see another /dev/shm, and none has handed out the table of "
                               "the address within 5 s: let them poll or wait, or share /dev/shm "
                               "with them"};
}

void SlotNames::hand_out(int table, int to) noexcept {
  (void)send_descriptor(to, nullptr, kAskMagic, table);
}

}  // namespace weft::port::udp
