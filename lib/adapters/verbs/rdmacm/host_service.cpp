// SPDX-License-Identifier: BSD-3-Clause
// See host_service.hpp.
#include "lib/adapters/verbs/rdmacm/host_service.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <utility>

namespace weft::rdmacm {

namespace {

bool is_shared_memory(const Context& context) { return context.device.attributes().port == "shm"; }

// "weft-rdmacm/UID/roce+shm:JOB/"
std::string device_name(const Context& context) {
  const std::string& spec = context.device.attributes().spec;
  return "weft-rdmacm/" + std::to_string(geteuid()) + "/" + spec.substr(0, spec.find(',')) + "/";
}

// "weft-rdmacm/UID/roce+shm:JOB/262/7471"
std::string claim_name(const Context& context, rdma_port_space space, uint16_t port) {
  return device_name(context) + std::to_string(space) + "/" + std::to_string(port);
}

// "weft-rdmacm/UID/roce+shm:JOB/closed/7471/"; the time in ms and the GID follow. The next listener
// may be of another port space.
std::string closed_name(const Context& context, uint16_t port) {
  return device_name(context) + "closed/" + std::to_string(port) + "/";
}

// What follows `name` in `line`; empty: it is not there.
std::string after(const std::string& line, const std::string& name) {
  const size_t at = line.find(name);
  return at == std::string::npos ? std::string() : line.substr(at + name.size());
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

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Sockets whose names tell when a listener closed: the last few, because nothing else needs them.
class ClosedListeners {
 public:
  static constexpr int64_t kMomentMs = 1000;  // as kBetweenListeners
  // `name`: up to the time.
  void add(const std::string& name, const std::string& gid) {
    const std::lock_guard hold(lock_);
    int& fd = sockets_[next_++ % sockets_.size()];
    if (fd >= 0) close(fd);
    fd = bound_to(name + std::to_string(now_ms()) + "/" + gid);
  }

 private:
  std::mutex lock_;
  std::array<int, 4> sockets_{-1, -1, -1, -1};
  size_t next_ = 0;
};

ClosedListeners& closed_listeners() {
  static auto& listeners = *new ClosedListeners;  // ids may be destroyed in handlers of exit()
  return listeners;
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
  if (made.claim_ < 0) return made;
  made.gid_ = to_string(context.device.attributes().gid);
  made.closed_name_ = closed_name(context, port);
  made.address_ = bound_to(name + "/" + made.gid_);
  return made;
}

void HostService::swap(HostService& other) noexcept {
  std::swap(claim_, other.claim_);
  std::swap(address_, other.address_);
  closed_name_.swap(other.closed_name_);
  gid_.swap(other.gid_);
}

HostService::~HostService() {
  if (claim_ < 0) return;
  try {
    closed_listeners().add(closed_name_, gid_);
  } catch (const std::bad_alloc&) {  // clients are refused until it listens again
  }
  if (address_ >= 0) close(address_);
  close(claim_);
}

std::optional<Gid> find_host_service(const Context& context, rdma_port_space space, uint16_t port) {
  if (!is_shared_memory(context)) return {};
  const std::string listening = "@" + claim_name(context, space, port) + "/";
  const std::string closed = "@" + closed_name(context, port);
  int64_t closed_at = now_ms() - ClosedListeners::kMomentMs;
  std::optional<Gid> closed_last;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (const std::string gid = after(line, listening); !gid.empty())
      if (const Result<Gid> found = parse_gid(gid)) return *found;
    std::istringstream rest(after(line, closed));
    int64_t at = 0;
    std::string gid;
    if (!(rest >> at) || at < closed_at || rest.get() != '/' || !(rest >> gid)) continue;
    closed_at = at;
    if (const Result<Gid> found = parse_gid(gid)) closed_last = *found;
  }
  return closed_last;
}

}  // namespace weft::rdmacm
