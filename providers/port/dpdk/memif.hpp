// SPDX-License-Identifier: BSD-3-Clause
// What DPDK's memif driver leaves to its user: the choice of server and client, the buffer size,
// and the listening socket that it leaks when a server closes.
#pragma once

#include <functional>
#include <string>

#include "providers/port/dpdk/options.hpp"

namespace weft::port::dpdk {

bool is_memif(const Options& options);

// Both sides of a memif may be opened with the same string: the first becomes the server. Sets the
// buffer size to a whole frame.
void complete_memif(Options& options);

// The socket that a completed memif device will listen at; empty if it is no server.
std::string memif_listens_at(const Options& options);

// The driver (22.11) of a server closes a connection that ended before it was accepted, but keeps
// the descriptor in the EAL's epoll set, at which the EAL aborts. So a client of `socket` waits
// until `link_is_up`, for a second at most: when it is opened, so that the first frame finds a
// link, and before it is closed. Not on the interrupt thread, which makes the connection.
void memif_await_link(const std::string& socket, const std::function<bool()>& link_is_up);

// The socket that a completed memif device connects to; empty if it is no client.
std::string memif_connects_to(const Options& options);

// The driver (22.11) neither closes nor unregisters the listening socket of its last server, though
// it frees its state: clients still connect, and the EAL's interrupt thread would loop on the
// event. So servers are counted, and the last listening socket is replaced (dup2) by a file that is
// never readable, since the EAL keeps its number in the epoll set. memif_closed() is called on the
// interrupt thread, right after the device was closed.
void memif_opened(const std::string& socket);
void memif_closed(const std::string& socket) noexcept;

}  // namespace weft::port::dpdk
