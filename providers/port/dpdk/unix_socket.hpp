// SPDX-License-Identifier: BSD-3-Clause
// Who listens at the unix sockets over which DPDK's virtual devices meet.
#pragma once

#include <string>

namespace weft::port::dpdk {

// Does somebody listen at this unix socket, a path or an abstract name? Connecting would disturb,
// so the kernel's table is read.
bool has_listener(const std::string& name);

// Is `fd` a unix socket that listens at this name?
bool listens_at(int fd, const std::string& name);

}  // namespace weft::port::dpdk
