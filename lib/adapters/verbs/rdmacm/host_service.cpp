// SPDX-License-Identifier: BSD-3-Clause
// See host_service.hpp.
#include "lib/adapters/verbs/rdmacm/host_service.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>

namespace weft::rdmacm {

namespace {

bool is_shared_memory(const Context& context) { return context.device.attributes().port == "shm"; }

// "weft-rdmacm/UID/roce+shm:JOB/262/7471"
std::string claim_name(const Context& context, rdma_port_space space, uint16_t port) {
  const std::string& spec = context.device.attributes().spec;
  return "weft-rdmacm/" + std::to_string(geteuid()) + "/" + spec.substr(0, spec.find(',')) + "/" +
         std::to_string(space) + "/" + std::to_string(port);
}

// A socket of that abstract name; -1: errno says why.
int bound_to(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() >= sizeof address.sun_path) return errno = ENAMETOOLONG, -1;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  const int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

}  // namespace

Result<HostService> HostService::listen(const Context& context, rdma_port_space space,
                                        uint16_t port) {
  HostService made;
  if (!is_shared_memory(context)) return made;
  const std::string name = claim_name(context, space, port);
  made.claim_ = bound_to(name);
  if (made.claim_ < 0 && errno == EADDRINUSE)
    return Error{Code::address_in_use, "another process listens on port " + std::to_string(port) +
                                           " of " + context.device.attributes().spec};
  // Without a descriptor for these, the listener can be reached by its own address.
  if (made.claim_ >= 0)
    made.address_ = bound_to(name + "/" + to_string(context.device.attributes().gid));
  return made;
}

HostService::~HostService() {
  if (address_ >= 0) close(address_);
  if (claim_ >= 0) close(claim_);
}

std::optional<Gid> find_host_service(const Context& context, rdma_port_space space, uint16_t port) {
  if (!is_shared_memory(context)) return {};
  const std::string name = "@" + claim_name(context, space, port) + "/";
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find(name);
    if (at == std::string::npos) continue;
    const Result<Gid> gid = parse_gid(line.substr(at + name.size()));
    if (gid) return *gid;
  }
  return {};
}

}  // namespace weft::rdmacm
