// SPDX-License-Identifier: BSD-3-Clause
// What DPDK's memif driver leaves to its user: who serves, how large buffers are, and the listener
// that it forgets when a server closes.
#pragma once

#include <functional>
#include <string>

#include "providers/port/dpdk/options.hpp"

namespace weft::port::dpdk {

bool is_memif(const Options& options);

// Both sides of a memif may be opened with the same string: who comes first serves. Its buffers
// hold a whole frame.
void complete_memif(Options& options);

// The socket that a completed memif device will listen at; empty if it is no server.
std::string memif_listens_at(const Options& options);

// The driver (22.11) of a server closes a connection that has gone before it was accepted, but goes
// on watching its number, at which the EAL ends the process. So who connects to `socket` waits
// until `link_is_up`, for a second at most: when it is opened, so that the first frame finds a
// link, and before it is closed. Not on the interrupt thread, which makes the connection.
void memif_await_link(const std::string& socket, const std::function<bool()>& link_is_up);

// The socket that a completed memif device connects to; empty if it is no client.
std::string memif_connects_to(const Options& options);

// The driver (22.11) neither closes nor unregisters the listener of its last server at a socket,
// though it frees what belongs to it: connections still land there, and the EAL's interrupt thread
// would turn at them for ever. So servers are counted, and the last one's listener is replaced by a
// file that is never readable: its number stays taken, for the EAL goes on watching it. The second
// call comes on the interrupt thread, right after the device was closed.
void memif_opened(const std::string& socket);
void memif_closed(const std::string& socket) noexcept;

}  // namespace weft::port::dpdk
