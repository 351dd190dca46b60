// SPDX-License-Identifier: BSD-3-Clause
// The two kinds of socket of the port, ready to use: one that receives everything for the
// protocol's UDP port of the address, and those that send from one source port each.
#pragma once

#include <array>

#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"
#include "providers/port/udp/options.hpp"
#include "weft/result.hpp"

namespace weft::port::udp {

inline constexpr uint32_t kReceiveBuffer = 4u << 20;  // bytes, if Options::rcvbuf is 0

struct ReceiveSocket {
  Descriptor socket;
  uint32_t buffer = 0;  // what the kernel granted: it counts whole socket buffers against it
};

// Receives what is sent to the multicast group `group` over the interface of `local`; any number of
// sockets may do so. Errors: io_error.
Result<ReceiveSocket> open_group_socket(const LocalAddress& local, const Gid& group,
                                        const Options& options);

// Binds local.port as local.claim says and completes local.gid. Errors: address_in_use with the
// likely holder, io_error.
Result<ReceiveSocket> open_receive_socket(LocalAddress& local, const Options& options);

// Holds local.port of the address as long as no other socket does; once it is held, sockets of our
// user may be bound beside it. An empty descriptor: another socket holds it. It is never read.
Descriptor bind_alone(const LocalAddress& local) noexcept;

// Addresses that no device tries, other ones for each thread: two threads or processes that ask
// is_held_everywhere() at the same time do not find each other's sockets.
std::array<Gid, 2> distant_loopbacks() noexcept;
// Whether another socket seems to bind the UDP port on 0.0.0.0: it is in use on
// distant_loopbacks(). Then errno is EADDRINUSE.
bool is_held_everywhere(uint32_t port) noexcept;

// The error for an address in use.
Error in_use(const LocalAddress& local);

// Keeps processes of other users from binding the port on any address (sender_check.hpp); those of
// our user that hold it may do so, too. It is never read. Empty: another user has it, or a program
// of ours that does not share it.
Descriptor hold_port(bool ipv4, uint16_t port) noexcept;
// A socket with SO_REUSEADDR, not bound.
Descriptor open_probe_socket(bool ipv4) noexcept;
// Binds `fd` to the port on all addresses. False, with errno: that failed.
bool bind_everywhere(int fd, bool ipv4, uint16_t port) noexcept;

// A socket bound to `port` of the address, or an empty descriptor with errno set. It sends with
// DF and without path MTU discovery, so the IPv4 identification is 0 and no ICMP message can shrink
// the path by forged ICMP; it is never read, so a filter drops what arrives.
Descriptor open_transmit_socket(const LocalAddress& local, uint16_t port, uint32_t buffer) noexcept;

// A socket at any port of the address that is told what ICMP says of its datagrams, and receives
// nothing. Empty: there is no descriptor left.
Descriptor open_question_socket(const LocalAddress& local) noexcept;

// Segments that one datagram with UDP_SEGMENT may have on this kernel: 128, 64, or 1 for none.
uint32_t probe_segments(const LocalAddress& local) noexcept;

}  // namespace weft::port::udp
