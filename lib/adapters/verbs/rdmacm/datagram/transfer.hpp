// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of a datagram rsocket, and what it needs of the socket's peers.
#pragma once

#include "lib/adapters/verbs/rdmacm/datagram/socket.hpp"

namespace weft::rdmacm::datagram {

// transfer.cpp. Makes the queue pair on a device. False: errno says why; EXDEV: it is on another.
bool open_on(Socket& socket, ibv_context* verbs, ibv_pd* pd);

// socket.cpp. Whom datagrams to an address go to, which may have to be asked for; null: errno.
const Peer* peer_at(Socket& socket, const sockaddr* address);
// Binds a socket without a port to a free one.
bool bind_to_any(Socket& socket);
// Answers those who ask for our queue pair.
void answer_all(Socket& socket);

}  // namespace weft::rdmacm::datagram
