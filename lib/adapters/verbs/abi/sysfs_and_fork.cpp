// SPDX-License-Identifier: BSD-3-Clause
// What concerns the process and its system: fork, and files of sysfs.
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

using namespace weft::drop_in;

// No page is shared with a device by copy-on-write: a child of fork() does no harm.
int ibv_fork_init() { return real_library() == nullptr ? 0 : in_real(&RealLibrary::ibv_fork_init); }
ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

extern "C" {

int ibv_dontfork_range(void*, size_t) { return 0; }
int ibv_dofork_range(void*, size_t) { return 0; }

const char* ibv_get_sysfs_path() {
  static const char* const path = [] {
    const char* set = std::getenv("SYSFS_PATH");
    return set != nullptr && *set != '\0' ? ::strdup(set) : "/sys";
  }();
  return path;
}

// Reads `directory`/`file` without the newline at its end; returns the length or -1.
int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size) {
  char path[512];
  std::snprintf(path, sizeof path, "%s/%s", directory, file);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t length = ::read(fd, buffer, size);
  ::close(fd);
  if (length > 0 && buffer[length - 1] == '\n')
    buffer[--length] = '\0';
  else if (length >= 0 && static_cast<size_t>(length) < size)
    buffer[length] = '\0';
  return static_cast<int>(length);
}

// The MAC address of a peer is the business of the kernel's neighbour table, not of this library.
int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, uint8_t[6], uint16_t*) {
  return not_supported("ibv_resolve_eth_l2_from_gid", "the port resolves neighbours itself");
}
}
