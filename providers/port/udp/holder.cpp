// SPDX-License-Identifier: BSD-3-Clause
// See holder.hpp.
#include "providers/port/udp/holder.hpp"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace weft::port::udp {
namespace {

// As the kernel prints it in /proc/net/udp: words of 32 bits in the order of this machine.
std::string kernel_text(const LocalAddress& local) {
  std::string text;
  char word[16];
  for (size_t at = local.ipv4() ? 12 : 0; at < 16; at += 4) {
    uint32_t value;
    std::memcpy(&value, local.gid.bytes.data() + at, sizeof value);
    std::snprintf(word, sizeof word, "%08X", value);
    text += word;
  }
  std::snprintf(word, sizeof word, ":%04X", local.port + local.shift);
  return text + word;
}

struct Socket {
  std::string user, inode;
};

std::optional<Socket> find_socket(const LocalAddress& local) {
  std::ifstream table(std::string("/proc/thread-self/net/") + (local.ipv4() ? "udp" : "udp6"));
  const std::string wanted = kernel_text(local);
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string skipped, address;
    Socket found;
    fields >> skipped >> address;
    for (int i = 0; i < 5; ++i) fields >> skipped;  // peer, state, queues, timer, retransmissions
    fields >> found.user >> skipped >> found.inode;
    if (fields && address == wanted) return found;
  }
  return std::nullopt;
}

// The process with a descriptor of the socket, and its name; empty: none that we may look at.
std::string process_with(const std::string& inode) {
  namespace fs = std::filesystem;
  const std::string wanted = "socket:[" + inode + "]";
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; process != end;
       process.increment(error)) {
    const std::string id = process->path().filename();
    if (error || id.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code hidden;
    for (fs::directory_iterator file(process->path() / "fd", hidden); !hidden && file != end;
         file.increment(hidden)) {
      if (fs::read_symlink(file->path(), error) != wanted) continue;
      std::ifstream comm(process->path() / "comm");
      std::string name;
      std::getline(comm, name);
      return "process " + id + " (" + name + ")";
    }
  }
  return {};
}

}  // namespace

std::string holder_of(const LocalAddress& local) {
  const std::optional<Socket> socket = find_socket(local);
  if (!socket) return "unknown";
  const std::string process = process_with(socket->inode);
  return (process.empty() ? "a process" : process) + " of user " + socket->user;
}

}  // namespace weft::port::udp
