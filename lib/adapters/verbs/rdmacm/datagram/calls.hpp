// SPDX-License-Identifier: BSD-3-Clause
// How the functions on rsockets reach the datagram ones.
#pragma once

#include <optional>
#include <utility>

#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/datagram/socket.hpp"

namespace weft::rdmacm::datagram {

// Calls `body` with the locked socket of the descriptor. Empty: it is of no datagram socket.
template <class Body>
auto with_datagram(const char* call, int fd, Body body) {
  using Value = decltype(body(std::declval<Socket&>()));
  return guarded<std::optional<Value>>(call, Value{-1}, [&]() -> std::optional<Value> {
    const std::shared_ptr<Socket> socket = find(fd);
    if (socket == nullptr) return std::nullopt;
    const std::lock_guard hold(socket->lock);
    return body(*socket);
  });
}

}  // namespace weft::rdmacm::datagram
