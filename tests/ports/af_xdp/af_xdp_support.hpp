// SPDX-License-Identifier: BSD-3-Clause
// What tests of af_xdp share: a port that must open, what an interface has attached, and a process
// with a port that is killed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/ports/ethernet/raw_port_support.hpp"

namespace raw_port_test {

inline std::unique_ptr<Port> need(Result<std::unique_ptr<Port>> port) {
  INFO((port ? "" : port.error().message));
  REQUIRE(port.ok());
  return std::move(*port);
}

inline bool has_program(const char* interface) {
  return std::system(("ip link show " + std::string(interface) + " | grep -q xdp").c_str()) == 0;
}

// The kernel takes a program off a little after the process that held it has ended.
inline bool loses_its_program(const char* interface) {
  for (int tries = 0; tries < 100 && has_program(interface); ++tries) ::usleep(10'000);
  return !has_program(interface);
}

// A process that has the port that `open` opens, until it is killed.
class Child {
 public:
  template <class Open>
  explicit Child(Open open) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      const auto port = open();
      const char answer = port.ok() ? 'y' : 'n';
      (void)!::write(ready[1], &answer, 1);
      if (port.ok()) ::pause();
      ::_exit(0);
    }
    char answer = 0;
    REQUIRE(::read(ready[0], &answer, 1) == 1);
    REQUIRE(answer == 'y');
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

}  // namespace raw_port_test
