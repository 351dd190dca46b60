// SPDX-License-Identifier: BSD-3-Clause
// See process.hpp.
#include "tools/stat/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace weft::stat {

namespace {

constexpr int kPatience_ms = 2000;
constexpr size_t kMostText = 64u << 20;  // of one answer

std::string proc(pid_t process, const char* what) {
  return "/proc/" + std::to_string(process) + "/" + what;
}

std::string called(pid_t process) {
  std::string name;
  std::getline(std::ifstream(proc(process, "comm")), name);
  return "process " + std::to_string(process) + (name.empty() ? "" : " (" + name + ")");
}

// What the process calls itself: another number than ours in a process namespace of its own.
pid_t own_number(pid_t process) {
  std::ifstream status(proc(process, "status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("NSpid:", 0) != 0) continue;
    std::istringstream numbers(line.substr(6));
    for (pid_t number; numbers >> number;) process = number;
  }
  return process;
}

std::string owner_of(pid_t process, uid_t& owner) {
  struct ::stat about {};
  if (::stat(proc(process, "").c_str(), &about) != 0) return {};
  owner = about.st_uid;
  const passwd* const entry = ::getpwuid(owner);
  return entry != nullptr ? entry->pw_name : std::to_string(owner);
}

Error denied(pid_t process) {
  uid_t owner = 0;
  const std::string name = owner_of(process, owner);
  return {Code::permission_denied,
          called(process) + " is " + name + "'s: ask as " + name + " or as root"};
}

// Abstract sockets belong to a network namespace; a socket stays in the one that it was made in.
// The thread comes back.
int socket_beside(pid_t process, bool& other) {
  struct ::stat ours {
  }, theirs{};
  const std::string space = proc(process, "ns/net");
  if (::stat("/proc/self/ns/net", &ours) != 0 || ::stat(space.c_str(), &theirs) != 0 ||
      ours.st_ino == theirs.st_ino)
    return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  other = true;
  const int before = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  const int there = ::open(space.c_str(), O_RDONLY | O_CLOEXEC);
  int fd = -1;
  if (before >= 0 && there >= 0 && ::setns(there, CLONE_NEWNET) == 0) {
    fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)::setns(before, CLONE_NEWNET);
  }
  if (before >= 0) ::close(before);
  if (there >= 0) ::close(there);
  return fd;
}

// Another user's process may say anything: nothing that a terminal or a scraper would obey.
bool plain(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; });
}
bool plain(const Json& json) {
  if (json.is_string()) return plain(json.get_ref<const std::string&>());
  if (!json.is_structured()) return true;
  for (const auto& [key, value] : json.items())
    if (!plain(key) || !plain(value)) return false;
  return true;
}

Result<std::string> read_all(int fd, pid_t process) {
  std::string text;
  char piece[65536];
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (true) {
    if (text.size() > kMostText || std::chrono::steady_clock::now() > end)
      return Error{Code::io_error, called(process) + " answers without end, which is not read"};
    pollfd readable{fd, POLLIN, 0};
    if (::poll(&readable, 1, kPatience_ms) <= 0)
      return Error{Code::timed_out, called(process) + " does not answer: is it stopped?"};
    const ssize_t got = ::recv(fd, piece, sizeof piece, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
  }
}

Result<Json> converse(int fd, pid_t process) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "weft-stat/" + std::to_string(own_number(process));
  std::memcpy(&name.sun_path[1], text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  const timeval patience{kPatience_ms / 1000, 0};  // one that accepts nothing has a full line
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&name), length) != 0)
    return Error{Code::not_found,
                 called(process) + " has no weft device open (or a weft older than weft_stat)"};
  // Any process can take the name; the credentials of the process behind it are reliable.
  ucred who{};
  socklen_t size = sizeof who;
  (void)::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
  if (who.pid != process)
    return Error{Code::io_error, called(process) + ": process " + std::to_string(who.pid) +
                                     " answers in its place, which is not believed"};
  const Result<std::string> answer = read_all(fd, process);
  if (!answer) return answer.error();
  Json json = Json::parse(*answer, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return Error{Code::disconnected, called(process) + " ended, or closed its devices, meanwhile"};
  if (json.contains("error")) return denied(process);
  if (!plain(json))
    return Error{Code::io_error, called(process) + " answers with control characters: not shown"};
  return json;
}

}  // namespace

Result<Json> query(pid_t process) {
  if (process <= 0 || (::kill(process, 0) != 0 && errno == ESRCH))
    return Error{Code::not_found, "there is no process " + std::to_string(process)};
  uid_t owner = 0;
  (void)owner_of(process, owner);
  if (::geteuid() != 0 && ::geteuid() != owner) return denied(process);
  bool other = false;
  const int fd = socket_beside(process, other);
  if (fd < 0)
    return Error{Code::permission_denied,
                 called(process) + (other ? " is in another network namespace: ask as root, or "
                                            "there (nsenter -n -t PID weft_stat PID)"
                                          : ": no socket to ask it with")};
  Result<Json> answer = converse(fd, process);
  ::close(fd);
  return answer;
}

std::vector<pid_t> find_processes() {
  std::vector<pid_t> found;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    constexpr std::string_view kName = "@weft-stat/";
    const size_t at = line.find(kName);
    if (at == std::string::npos || line.find("00010000") == std::string::npos) continue;
    found.push_back(std::atoi(line.c_str() + at + kName.size()));
  }
  return found;
}

}  // namespace weft::stat
