// SPDX-License-Identifier: BSD-3-Clause
// The command connection to the puppet (live_stage.hpp).
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "tools/script/live_stage.hpp"

namespace weft::script {

namespace {

int connect_to(const std::string& host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int error = fd < 0 ? -1 : connect(fd, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (error == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

}  // namespace

Result<std::unique_ptr<Puppet>> Puppet::call(const std::string& host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  const int fd = colon == std::string::npos
                     ? -1
                     : connect_to(host_and_port.substr(0, colon), host_and_port.substr(colon + 1));
  if (fd < 0)
    return Error{Code::not_found, "no puppet answers at \"" + host_and_port +
                                      "\": start weft_puppet PORT or verbs_puppet PORT there and "
                                      "name HOST:PORT (" +
                                      std::strerror(errno) + ")"};
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return std::unique_ptr<Puppet>(new Puppet(fd));
}

Puppet::~Puppet() { close(fd_); }

std::map<std::string, std::string> Puppet::send_command(const std::string& line) {
  const std::string text = line + "\n";
  if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    throw ScriptError("the puppet has closed the connection: see its output");
  while (received_.find('\n') == std::string::npos) {
    char bytes[4096];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) throw ScriptError("the puppet has closed the connection: see its output");
    received_.append(bytes, static_cast<size_t>(n));
  }
  const size_t end = received_.find('\n');
  const std::string answer = received_.substr(0, end);
  received_.erase(0, end + 1);
  if (!answer.starts_with("ok")) throw NotSupportedByEnd("the puppet answers: " + answer);
  std::map<std::string, std::string> values;
  std::istringstream words(answer.substr(2));
  for (std::string word; words >> word;)
    values[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return values;
}

}  // namespace weft::script
