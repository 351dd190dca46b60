// SPDX-License-Identifier: BSD-3-Clause
// Address handles: where a request of a connectionless queue pair goes. A request names the handle
// and the number of the queue pair at the other end (SendRequest::to, remote_qpn). Making a handle
// sends nothing; any number of requests and threads may use one at the same time.
#pragma once

#include <cstddef>
#include <span>

#include "weft/types.hpp"

namespace weft {

class AddressHandle {
 public:
  AddressHandle() = default;
  explicit AddressHandle(const AddressVector& path) : path_(path) {}
  const AddressVector& path() const noexcept { return path_; }

 private:
  AddressVector path_;
};

// Where a datagram to a multicast group goes: SendRequest::remote_qpn of a request whose handle
// names a group. Whoever knows the Q_Key may send there, member or not.
inline constexpr QpNum kMulticastQpn{0xFFFFFF};

// What a UD receive begins with: an IPv6 header, or 20 zero bytes and an IPv4 header.
inline constexpr size_t kNetworkHeaderLength = 40;
// Who sent a datagram, from the first bytes of the receive: the path of an address handle for the
// answer, which goes to Completion::source_qp there.
AddressVector sender_of(std::span<const std::byte, kNetworkHeaderLength> network_header) noexcept;

}  // namespace weft
