// SPDX-License-Identifier: BSD-3-Clause
// What the functions on rsockets have in common: they find the socket, lock it, and sleep until
// something is the case.
#pragma once

#include <cerrno>

#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/spin.hpp"
#include "lib/adapters/verbs/rdmacm/stream/socket.hpp"

namespace weft::rdmacm::stream {

// Calls `body` with the locked socket; no such socket: -1 and EBADF.
template <class Body>
auto with_socket(const char* call, int fd, Body body) {
  using Value =
      decltype(body(std::declval<Socket&>(), std::declval<std::unique_lock<std::mutex>&>()));
  return guarded<Value>(call, Value{-1}, [&]() -> Value {
    const std::shared_ptr<Socket> socket = find(fd);
    if (socket == nullptr) return refuse(EBADF, call, "no rsocket of that number");
    std::unique_lock hold(socket->lock);
    return body(*socket, hold);
  });
}

// Makes progress until `predicate` holds. False: it does not, and the call must not block (EAGAIN)
// or was interrupted by a signal (EINTR).
template <class Predicate>
bool wait_until(Socket& socket, std::unique_lock<std::mutex>& hold, bool blocks,
                Predicate predicate) {
  for (bool polled = false;; polled = true) {
    progress_connection(socket);
    progress(socket);
    if (predicate()) return true;
    if (!blocks) return errno = EAGAIN, false;
    const auto poll = [&] { return progress(socket), predicate(); };
    if (!polled && socket.phase == Phase::connected && spin(poll)) return true;
    if (!sleep(socket, hold)) return errno = EINTR, false;
  }
}

// The same, through signals.
template <class Predicate>
void wait_for(Socket& socket, std::unique_lock<std::mutex>& hold, Predicate predicate) {
  while (!wait_until(socket, hold, true, predicate)) {
  }
}

}  // namespace weft::rdmacm::stream
