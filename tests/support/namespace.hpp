// SPDX-License-Identifier: BSD-3-Clause
// Network namespaces for tests that need interfaces of their own; entering one takes root.
#pragma once

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace weft::test {

// A network namespace of our own while it lives; the thread comes back to the old one afterwards.
class Namespace {
 public:
  Namespace() : before_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    entered_ = before_ >= 0 && ::unshare(CLONE_NEWNET) == 0;
    if (entered_) up("lo");
  }
  ~Namespace() {
    if (entered_ && ::setns(before_, CLONE_NEWNET) != 0) std::abort();
    if (before_ >= 0) ::close(before_);
  }
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;
  explicit operator bool() const { return entered_; }

  static bool up(const char* interface) {
    const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    bool done = ::ioctl(any, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    done = done && ::ioctl(any, SIOCSIFFLAGS, &request) == 0;
    ::close(any);
    return done;
  }

 private:
  int before_;
  bool entered_ = false;
};

}  // namespace weft::test
