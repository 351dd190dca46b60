// SPDX-License-Identifier: BSD-3-Clause
// Sockets of the kernel, for what a device opens. The host program may run with a library that
// replaces socket(): librspreload makes an RDMA socket of it, which needs a device itself.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::base {

// As socket(2): -1 and errno if there is none.
inline int kernel_socket(int domain, int type, int protocol = 0) noexcept {
  return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
}

}  // namespace weft::base
