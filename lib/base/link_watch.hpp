// SPDX-License-Identifier: BSD-3-Clause
// Events of a network interface, from the kernel (rtnetlink): link down or up, address removed or
// added. No thread: the owner polls the descriptor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "weft/device.hpp"

namespace weft::base {

class LinkWatch {
 public:
  // Watches the interface with this index and `address` on it. Without rtnetlink there are no
  // events.
  LinkWatch(uint32_t interface, const Gid& address) noexcept;
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  // Readable when next() may have an event; -1: never.
  int fd() const noexcept { return fd_; }
  // The next event: port_error, port_active or gid_change, one per change, in order. Never blocks.
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
  bool lost_some_ = false;  // messages were lost: compare the current state with the last known
  size_t begin_ = 0, end_ = 0;
  alignas(8) std::array<std::byte, 8192> messages_;
};

}  // namespace weft::base
