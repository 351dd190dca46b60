// SPDX-License-Identifier: BSD-3-Clause
// A port in another process, which answers, is killed or stopped.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/ports/shm/shm_support.hpp"

namespace shm_test {

// A process with a port that answers each frame with the same bytes.
struct Echo {
  explicit Echo(const std::string& where, const Options& options = {}) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    pid = fork();
    if (pid == 0) {
      alarm(120);  // if the test fails, no other process ends this
      run(where, options, ends[1]);
      _exit(0);
    }
    close(ends[1]);
    REQUIRE(read(ends[0], &address, sizeof address) == sizeof address);
    REQUIRE(read(ends[0], &qpn, sizeof qpn) == sizeof qpn);
    close(ends[0]);
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  ~Echo() { kill_now(); }

  void kill_now() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }

  pid_t pid = 0;
  Gid address;
  uint32_t qpn = 0;  // the first of its queue pair numbers

 private:
  static void run(const std::string& where, const Options& options, int out) {
    auto opened = weft::port::open_shm_port({where, options});
    if (!opened) _exit(1);
    Port& port = **opened;
    const Gid own = port.address();
    const uint32_t first = port.qpn_range().first;
    if (write(out, &own, sizeof own) != sizeof own) _exit(1);
    if (write(out, &first, sizeof first) != sizeof first) _exit(1);
    std::vector<Received> got;
    for (;;) {
      collect(port, got);
      for (const Received& frame : got)
        while (!send(port, frame.source, frame.bytes)) collect(port, got);
      got.clear();
    }
  }
};

inline std::vector<Received> ask(Port& port, const Gid& to, const Bytes& header,
                                 const Bytes& payload) {
  std::vector<Received> got;
  const Deadline deadline(20'000);
  bool sent = false;
  while (got.empty() && !deadline.passed()) {
    if (!sent) sent = send(port, to, header, payload, true);
    collect(port, got);
  }
  return got;
}

}  // namespace shm_test
