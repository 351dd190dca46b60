// SPDX-License-Identifier: BSD-3-Clause
// The command connection to the responder (live_stage.hpp).
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "tools/script/live_stage.hpp"
#include "tools/script/responder.hpp"

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

// HOST, HOST:PORT, or an IPv6 address, which has brackets if a port follows.
std::pair<std::string, std::string> host_and_port(const std::string& where) {
  const std::string usual = std::to_string(responder::kPort);
  const size_t colon = where.rfind(':'), bracket = where.find(']');
  if (where.starts_with('[') && bracket != std::string::npos)
    return {where.substr(1, bracket - 1),
            bracket + 1 < where.size() ? where.substr(bracket + 2) : usual};
  if (colon == std::string::npos || where.find(':') != colon) return {where, usual};
  return {where.substr(0, colon), where.substr(colon + 1)};
}

}  // namespace

Result<std::unique_ptr<ResponderClient>> ResponderClient::connect(const std::string& where) {
  const auto [host, port] = host_and_port(where);
  errno = 0;
  const int fd = connect_to(host, port);
  if (fd < 0)
    return Error{Code::not_found,
                 "no responder answers at \"" + where + "\" (TCP port " + port +
                     "): start `weft_script respond --device DEVICE` there, and name HOST or "
                     "HOST:PORT (" +
                     (errno == 0 ? "no such host" : std::strerror(errno)) + ")"};
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return std::unique_ptr<ResponderClient>(new ResponderClient(fd));
}

ResponderClient::~ResponderClient() { close(fd_); }

std::map<std::string, std::string> ResponderClient::send_command(const std::string& line) {
  const std::string text = line + "\n";
  if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    throw ScriptError("the responder has closed the connection: see its output");
  while (received_.find('\n') == std::string::npos) {
    char bytes[4096];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) throw ScriptError("the responder has closed the connection: see its output");
    received_.append(bytes, static_cast<size_t>(n));
  }
  const size_t end = received_.find('\n');
  const std::string answer = received_.substr(0, end);
  received_.erase(0, end + 1);
  if (!answer.starts_with("ok")) throw NotSupportedByEnd("the responder answers: " + answer);
  std::map<std::string, std::string> values;
  std::istringstream words(answer.substr(2));
  for (std::string word; words >> word;)
    values[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return values;
}

}  // namespace weft::script
