// SPDX-License-Identifier: BSD-3-Clause
// A child process that runs conformance_peer, with pipes to its standard input and output.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/fixture.hpp"

namespace weft::test {

// The program beside this one.
inline std::string peer_program() {
  std::array<char, 4096> path{};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  const std::string self(path.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return self.substr(0, self.rfind('/') + 1) + "conformance_peer";
}

class PeerProcess {
 public:
  // `before`: a command to run it with, say {"ip", "netns", "exec", NAME}.
  PeerProcess(const std::string& device, size_t contexts, std::vector<std::string> before = {}) {
    before.insert(before.end(), {peer_program(), device, std::to_string(contexts)});
    std::vector<char*> arguments;
    for (std::string& word : before) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int in[2], out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0);
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
    for (size_t i = 0; i < contexts; ++i) ports.push_back(std::stoi(expect("port", i)));
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess() {
    kill();
    close(to_);
    close(from_);
  }

  // `timeout`: of its queue pairs, 4.096 us * 2^timeout.
  void go(size_t context, const std::string& address, size_t pairs = 1, int timeout = 13) {
    send("go " + std::to_string(context) + " " + address + " " + std::to_string(pairs) + " " +
         std::to_string(timeout) + "\n");
    expect("linked", context);
  }
  // Stops the process until resume(); returns once all of its threads stand still.
  void pause() const {
    int status = 0;
    REQUIRE(::kill(pid_, SIGSTOP) == 0);
    REQUIRE(waitpid(pid_, &status, WUNTRACED) == pid_);
    REQUIRE(WIFSTOPPED(status));
  }
  void resume() const { REQUIRE(::kill(pid_, SIGCONT) == 0); }
  // `kill -9`; returns once the process has ended.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);  // also if it is stopped
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void stop() { send("stop\n"); }
  // After a `stop` command: closes its devices. Returns its exit status.
  int join() {
    int status = 0;
    expect("bye", SIZE_MAX);
    close(std::exchange(to_, -1));
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // The rest of the next line that begins with "WORD INDEX"; other lines are kept. SIZE_MAX: no
  // index.
  std::string expect(const std::string& word, size_t index) {
    const std::string head = index == SIZE_MAX ? word : word + " " + std::to_string(index);
    const Deadline deadline;
    while (!deadline.passed()) {
      for (size_t i = 0; i < lines_.size(); ++i) {
        if (lines_[i].rfind("fatal", 0) == 0) FAIL(lines_[i]);
        if (lines_[i] != head && lines_[i].rfind(head + " ", 0) != 0) continue;
        const std::string rest = lines_[i].substr(std::min(head.size() + 1, lines_[i].size()));
        lines_.erase(lines_.begin() + static_cast<ptrdiff_t>(i));
        return rest;
      }
      if (!read_more()) break;
    }
    FAIL("no \"" << head << "\" from the peer process");
    return {};
  }

  // How a transfer ended.
  struct Report {
    std::string status;
    uint64_t rounds = 0;
    int64_t last_ms = 0;
  };
  Report report(size_t context) {
    Report r;
    std::istringstream(expect("link", context)) >> r.status >> r.rounds >> r.last_ms;
    return r;
  }

  std::vector<int> ports;

 private:
  void send(const std::string& line) const {
    REQUIRE(write(to_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }
  // False: the process closed its output.
  bool read_more() {
    pollfd wanted{from_, POLLIN, 0};
    if (::poll(&wanted, 1, 1000) <= 0) return true;
    char some[512];
    const ssize_t n = read(from_, some, sizeof some);
    if (n <= 0) return false;
    for (ssize_t i = 0; i < n; ++i) {
      if (some[i] != '\n') {
        partial_ += some[i];
      } else {
        lines_.push_back(std::exchange(partial_, {}));
      }
    }
    return true;
  }

  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
  std::vector<std::string> lines_;
  std::string partial_;
};

}  // namespace weft::test
