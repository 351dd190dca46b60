// SPDX-License-Identifier: BSD-3-Clause
// Who listens at the unix sockets over which DPDK's virtual devices meet.
#pragma once

#include <dirent.h>

#include <cstdlib>
#include <string>

namespace weft::port::dpdk {

// Does somebody listen at this unix socket, a path or an abstract name? Connecting would disturb,
// so the kernel's table is read.
bool has_listener(const std::string& name);

// Is `fd` a unix socket that listens at this name?
bool listens_at(int fd, const std::string& name);

// Is a unix socket of this process connected to who listens, or listened, at this name?
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
