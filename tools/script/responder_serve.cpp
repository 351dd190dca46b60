// SPDX-License-Identifier: BSD-3-Clause
// The TCP side of responder.hpp: one client at a time, a line for a command, a line for its answer.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "tools/script/responder.hpp"

namespace weft::responder {

namespace {

constexpr size_t kMaxLine = 4u << 20;  // of `poke`, two digits a byte

// -1: said why on stderr.
int listen_on(const ServeOptions& options) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(options.port);
  if (getaddrinfo(options.listen.c_str(), port.c_str(), &hints, &found) != 0) {
    std::fprintf(stderr, "\"%s\" is no IP address to listen on\n", options.listen.c_str());
    return -1;
  }
  const int listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listens =
      bind(listener, found->ai_addr, found->ai_addrlen) == 0 && listen(listener, 1) == 0;
  if (!listens)
    std::fprintf(stderr, "TCP port %s of %s cannot be listened on: %s; name another with --port\n",
                 port.c_str(), options.listen.c_str(), std::strerror(errno));
  freeaddrinfo(found);
  if (listens) return listener;
  close(listener);
  return -1;
}

std::string answer_to(Commands& commands, const std::string& line) {
  try {
    return "ok " + commands.execute(line) + "\n";
  } catch (const std::exception& error) {
    std::string why = error.what();
    for (char& c : why)
      if (c == '\n') c = ' ';  // an answer is one line
    return "error " + why + "\n";
  }
}

bool send_whole(int client, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(client, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

// Returns when the client has closed the connection, or has sent a line that is too long.
void serve_client(int client, Commands& commands) {
  std::string received;
  char bytes[4096];
  for (ssize_t n; (n = recv(client, bytes, sizeof bytes, 0)) > 0;) {
    received.append(bytes, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end; (end = received.find('\n', begin)) != std::string::npos; begin = end + 1)
      if (!send_whole(client, answer_to(commands, received.substr(begin, end - begin)))) return;
    received.erase(0, begin);
    if (received.size() > kMaxLine) return;
  }
}

}  // namespace

int serve(const ServeOptions& options, Endpoint& endpoint) {
  const int listener = listen_on(options), on = 1;
  if (listener < 0) return 1;
  Commands commands(options, endpoint);
  do {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (client < 0) {
      std::perror("accept");
      break;
    }
    if (options.once) close(listener);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    serve_client(client, commands);
    close(client);
    if (options.once) return 0;
  } while (true);
  close(listener);
  return 1;
}

}  // namespace weft::responder
