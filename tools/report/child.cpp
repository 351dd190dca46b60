// SPDX-License-Identifier: BSD-3-Clause
// Starting, pinning and reaping child processes (child.hpp).
#include "tools/report/child.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "bench/perftest/clock.hpp"
#include "bench/perftest/control.hpp"

namespace weft::bench {
namespace {

constexpr int kRealtimePriority = 10;

// Runs in the child: only calls that are safe after fork.
[[noreturn]] void become(char* const* argv, int log, Placement placement) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (placement.core >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(placement.core, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
  }
  if (placement.realtime) {
    sched_param parameter{};
    parameter.sched_priority = kRealtimePriority;
    (void)sched_setscheduler(0, SCHED_RR, &parameter);
  }
  execv(argv[0], argv);
  _exit(127);
}

}  // namespace

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

Child::~Child() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Result<Child> Child::start(const std::vector<std::string>& arguments, const std::string& log,
                           Placement placement) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const int out = open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) return Error{Code::io_error, "cannot write " + log};
  Child child;
  child.pid_ = fork();
  if (child.pid_ == 0) become(argv.data(), out, placement);
  close(out);
  if (child.pid_ < 0) return Error{Code::io_error, std::string("fork: ") + std::strerror(errno)};
  return child;
}

int Child::wait(double seconds) {
  const uint64_t deadline = monotonic_ns() + static_cast<uint64_t>(seconds * 1e9);
  for (;;) {
    int status = 0;
    const pid_t done = waitpid(pid_, &status, WNOHANG);
    if (done == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (done < 0 && errno != EINTR) return -1;
    if (interrupted() || monotonic_ns() > deadline) return -1;
    usleep(5000);
  }
}

Result<Scratch> Scratch::make() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "weft_XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    return Error{Code::io_error, "cannot make a folder like " + path};
  return Scratch(path);
}

Scratch::~Scratch() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) cores.push_back(i);
  return cores;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  int port = 18515;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size) == 0)
    port = ntohs(any.sin_port);
  close(fd);
  return port;
}

}  // namespace weft::bench
