// SPDX-License-Identifier: BSD-3-Clause
// The unix sockets of an address's members. A member claims its slot by binding the abstract name
// weft-udp/UID/ADDRESS/PORT/SLOT: such names are local to the network namespace, as the UDP sockets
// are, and the kernel frees them with their process, however that dies.
//
// By them a process finds members whose files it does not see (containers of one pod, each with its
// own /dev/shm): it asks all of them for their table, and one hands out its descriptor over a
// socket that came with the question. Both sides look at the credentials that the kernel attaches,
// so that another user who binds such a name can refuse service, and no more.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>

#include "lib/transport/shared_address.hpp"
#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"
#include "weft/result.hpp"

namespace weft::port::udp {

using transport::kFirstSlot;
using transport::kLastSlot;
using transport::Slot;

// What came with a message: who sent it, and one descriptor.
class Attached {
 public:
  Attached(iovec* pieces, size_t count) noexcept;
  msghdr& header() noexcept { return header_; }
  // After the message was received into header().
  void take() noexcept;
  bool from_our_user() const noexcept { return from_our_user_; }
  const Descriptor& descriptor() const noexcept { return descriptor_; }
  Descriptor release() noexcept { return std::move(descriptor_); }

 private:
  msghdr header_{};
  // Room for one descriptor: of more, the kernel installs none.
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))];
  bool from_our_user_ = false;
  Descriptor descriptor_;
};

class SlotNames {
 public:
  struct Name {
    sockaddr_un address{};
    socklen_t length = 0;
  };
  static constexpr uint32_t kAskMagic = 0x77750003;  // first word of a question

  SlotNames() = default;
  explicit SlotNames(const LocalAddress& local);

  Name of(Slot slot) const noexcept;
  // False: no socket has the name of the slot.
  bool is_alive(Slot slot) const noexcept;

  // Asks the members but `mine`, whose socket is `from`, for their table, and waits for 5 s at
  // most. Empty: there are none, or no longer. Errors: busy (none has answered), io_error.
  Result<Descriptor> ask_for_table(Slot mine, int from) const;
  // The answer to a question that came with the socket `to`.
  static void hand_out(int table, int to) noexcept;

 private:
  std::string prefix_;  // the name up to the slot
};

}  // namespace weft::port::udp
