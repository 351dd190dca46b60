// SPDX-License-Identifier: BSD-3-Clause
// News of a network interface, from the kernel's routing messages (rtnetlink): that it went down or
// came up, and that an address of it went or came. No thread: the owner polls the descriptor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "weft/device.hpp"

namespace weft::base {

class LinkWatch {
 public:
  // Of the interface with this index, and of `address` on it. Where the kernel has no rtnetlink,
  // nothing is ever told.
  LinkWatch(uint32_t interface, const Gid& address) noexcept;
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  // Readable when next() may have something; -1: never.
  int fd() const noexcept { return fd_; }
  // port_error, port_active or gid_change: one for each change, in their order. Never blocks.
  std::optional<EventType> next() noexcept;

 private:
  bool fetch() noexcept;
  std::optional<EventType> note_up(bool up) noexcept;
  std::optional<EventType> note_address(bool there) noexcept;
  std::optional<EventType> parse_one() noexcept;

  const uint32_t interface_;
  const Gid address_;
  int fd_ = -1;
  bool up_ = false;
  bool there_ = false;
  bool lost_some_ = false;  // messages: what is now must be compared with what was
  size_t begin_ = 0, end_ = 0;
  alignas(8) std::array<std::byte, 8192> messages_;
};

}  // namespace weft::base
