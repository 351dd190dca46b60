// SPDX-License-Identifier: BSD-3-Clause
// Listening unix sockets of DPDK's virtual devices.
#pragma once

#include <dirent.h>

#include <cstdlib>
#include <string>

namespace weft::port::dpdk {

// Whether a socket listens at this path or abstract name. Reads the kernel's table, since
// connecting would disturb the listener.
bool has_listener(const std::string& name);

// Is `fd` a unix socket that listens at this name?
bool listens_at(int fd, const std::string& name);

// Whether a unix socket of this process is connected to a listener at this name, even a closed one.
bool is_connected(const std::string& name);

// visit(fd) for each descriptor of this process.
template <class Visit>
void for_each_descriptor(Visit visit) {
  DIR* const open = opendir("/proc/self/fd");
  if (open == nullptr) return;
  while (const dirent* entry = readdir(open)) visit(std::atoi(entry->d_name));
  closedir(open);
}

}  // namespace weft::port::dpdk
