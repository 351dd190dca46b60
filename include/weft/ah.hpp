// SPDX-License-Identifier: BSD-3-Clause
// Address handles: the destination of a request of a connectionless queue pair (UD, SRD). A request
// names the handle and the remote queue pair number (SendRequest::to, remote_qpn). Creating a
// handle sends no packet. A handle may be used by any number of requests and threads at once.
#pragma once

#include <cstddef>
#include <span>

#include "weft/types.hpp"

namespace weft {

// A path to a device, by value. See verbs: ibv_create_ah.
class AddressHandle {
 public:
  AddressHandle() = default;
  // A handle of `path`, as ProtectionDomain::address_handle() returns.
  explicit AddressHandle(const AddressVector& path) : path_(path) {}
  // The path that it was created with.
  const AddressVector& path() const noexcept { return path_; }

 private:
  AddressVector path_;
};

// The queue pair number of a multicast group: SendRequest::remote_qpn of a request whose handle
// names a group address. Any sender that knows the Q_Key may send to the group, member or not.
inline constexpr QpNum kMulticastQpn{0xFFFFFF};

// Bytes of network header at the start of each UD receive buffer: an IPv6 header, or 20 zero bytes
// and an IPv4 header (IBTA A17.4.5.2).
inline constexpr size_t kNetworkHeaderLength = 40;

// The sender of a datagram, from the network header in the receive buffer: a path for an address
// handle that replies to it. The reply's remote_qpn is Completion::source_qp.
AddressVector sender_of(std::span<const std::byte, kNetworkHeaderLength> network_header) noexcept;

}  // namespace weft
