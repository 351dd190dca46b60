// SPDX-License-Identifier: BSD-3-Clause
// Between the frames of the engine, which begin at the BTH, and those of an Ethernet: what a port
// that sees whole frames does with the headers in front.
#pragma once

#include "lib/transport/frame.hpp"
#include "lib/transport/port.hpp"
#include "providers/port/ethernet/interface.hpp"
#include "providers/port/ethernet/neighbours.hpp"

namespace weft::port::ethernet {

// A host on an interface of the kernel's.
Neighbours::Self self_of(const Interface& interface) noexcept;

// The headers and trailer of the longest packet that takes all of a path MTU: from UDP on, of the
// protocol that has this UDP port.
uint32_t transport_headers(uint16_t udp_port) noexcept;

// What a port can do whose frames are at most `mtu` bytes long with their IP header.
transport::Capabilities capabilities_of(const Gid& address, uint32_t mtu, uint16_t udp_port);

// The path of a frame that came with these headers.
transport::Path path_of(const wire::Outer& outer) noexcept;

// Makes `frame` the one that came with these headers; `path` is to stay where it is as long as it.
// In their places, since what is made beside them and copied waits for all stores before it.
void make_frame(const wire::Outer& outer, const wire::Transport& transport, transport::Path& path,
                transport::Frame& frame) noexcept;

// The headers of a frame from `self` to the interface `to`.
wire::Outer outer_of(const transport::TxFrame& frame, const Neighbours::Self& self,
                     const wire::MacAddress& to) noexcept;

// Writes the frame from its BTH on, the ICRC too if that is left to the port. Returns its end;
// nullptr: its payload memory is unmapped.
std::byte* write_transport(std::byte* at, const transport::TxFrame& frame) noexcept;

// Writes the whole frame, which takes frame.length() + wire::kMaxOuterLength bytes at most. Returns
// its length; 0: its payload memory is unmapped.
uint32_t write_frame(std::byte* begin, const transport::TxFrame& frame,
                     const Neighbours::Self& self, const wire::MacAddress& to) noexcept;

}  // namespace weft::port::ethernet
