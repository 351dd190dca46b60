// SPDX-License-Identifier: BSD-3-Clause
// A store over TCP: a thread in one process keeps the map, all processes (that one too) are
// clients. A request is a letter ('s'et or 'g'et), its number, two lengths of 32 bits in host
// order, the key and the value; the reply to a get is its number, a length and the value, sent when
// the key exists. It is meant for jobs on machines of one administrator, as the rendezvous of other
// collective libraries is: any process that reaches the port may write. No client can block the
// others: the server's sockets are non-blocking, and unsent replies per client are limited; a
// client that exceeds a limit is dropped: it gets the reason in a reply with number 0, and its
// requests are ignored.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/tcp.hpp"
#include "lib/collective/bootstrap/store.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kMaxBytes = 1 << 20;               // of a key or a value
constexpr size_t kReceiveBytes = 64 * 1024;           // of one receive
constexpr size_t kMaxUnsent = 4 * size_t{kMaxBytes};  // of replies to a client that does not read
constexpr size_t kMaxStored = size_t{1} << 30;        // of all keys and values
constexpr int kAcceptPause_ms = 100;                  // when no descriptors are left
constexpr Duration kFlushTimeout = Duration::from_s(1);
constexpr useconds_t kRetryInterval_us = 10'000;

struct RequestHead {
  char what = 'g';
  char unused[3] = {};
  uint32_t number = 0;  // matches the reply, also after a get that timed out
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
};

struct ReplyHead {
  uint32_t number = 0;
  uint32_t value_bytes = 0;
};

bool send_all(const base::Socket& socket, const void* data, size_t size) {
  for (const char* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = ::send(socket.fd(), at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// ---- the server ---------------------------------------------------------------------------------

struct Client {
  base::Socket socket;
  std::string received;
  std::string unsent;       // replies that its socket does not accept yet
  std::string pending_key;  // of the one outstanding get
  uint32_t number = 0;
  bool get_pending = false;
  bool dropped = false;
};

class Server {
 public:
  explicit Server(base::Socket listener)
      : listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        thread_([this] { run(); }) {}
  ~Server() {
    const uint64_t one = 1;
    (void)!write(stop_.fd(), &one, sizeof one);
    thread_.join();
  }

 private:
  void run() {
    while (true) {
      const short listens = accept_paused_ ? 0 : POLLIN;
      std::vector<pollfd> wanted = {{stop_.fd(), POLLIN, 0}, {listener_.fd(), listens, 0}};
      for (const Client& client : clients_) {
        const short writes = client.unsent.empty() ? 0 : POLLOUT;
        wanted.push_back({client.socket.fd(), static_cast<short>(POLLIN | writes), 0});
      }
      if (poll(wanted.data(), wanted.size(), accept_paused_ ? kAcceptPause_ms : -1) < 0) continue;
      accept_paused_ = false;
      if (wanted[0].revents != 0) return flush_replies();
      for (size_t i = clients_.size(); i-- > 0;)
        if (wanted[i + 2].revents != 0 && !serve(clients_[i]))
          clients_.erase(clients_.begin() + static_cast<ptrdiff_t>(i));
      if (wanted[1].revents != 0) accept_one();
    }
  }

  void accept_one() {
    Client client;
    client.socket = base::Socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.socket) return clients_.push_back(std::move(client));
    accept_paused_ = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
  }

  // Receives requests and sends unsent replies. False: the connection is closed.
  bool serve(Client& client) {
    if (!send_unsent(client)) return false;
    char buffer[4096];
    const ssize_t n = recv(client.socket.fd(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    if (!client.dropped) client.received.append(buffer, static_cast<size_t>(n));
    RequestHead head;
    while (client.received.size() >= sizeof head && !client.dropped) {
      std::memcpy(&head, client.received.data(), sizeof head);
      if (head.key_bytes > kMaxBytes || head.value_bytes > kMaxBytes ||
          (head.what != 's' && head.what != 'g'))
        return drop(client, "its request is malformed or larger than 1 MiB");
      const size_t size = sizeof head + head.key_bytes + head.value_bytes;
      if (client.received.size() < size) return true;
      std::string key = client.received.substr(sizeof head, head.key_bytes);
      std::string value = client.received.substr(sizeof head + head.key_bytes, head.value_bytes);
      client.received.erase(0, size);
      if (head.what == 's' ? !set(client, key, std::move(value)) : !get(client, key, head.number))
        return false;
    }
    return true;
  }

  bool get(Client& client, const std::string& key, uint32_t number) {
    client.get_pending = true;
    client.pending_key = key;
    client.number = number;
    return reply(client);
  }

  bool set(Client& from, const std::string& key, std::string value) {
    const size_t bytes = key.size() + value.size();
    if (kept_ + bytes > kMaxStored && !values_.contains(key))
      return drop(from, "the store is full (1 GiB)");
    if (values_.try_emplace(key, std::move(value)).second) kept_ += bytes;
    for (Client& client : clients_)  // poll() detects closed ones
      if (client.get_pending && client.pending_key == key) (void)reply(client);
    return true;
  }

  bool reply(Client& client) {
    const std::map<std::string, std::string>::iterator found = values_.find(client.pending_key);
    if (found == values_.end()) return true;
    client.get_pending = false;
    if (client.unsent.size() + found->second.size() > kMaxUnsent)
      return drop(client, "it requested more than 4 MiB of values and did not read them");
    return queue_reply(client, client.number, found->second);
  }

  bool drop(Client& client, const std::string& why) {
    client.dropped = true;
    client.get_pending = false;
    client.received = {};
    return queue_reply(client, 0, why);
  }

  bool queue_reply(Client& client, uint32_t number, const std::string& value) {
    const ReplyHead head{number, static_cast<uint32_t>(value.size())};
    client.unsent.append(reinterpret_cast<const char*>(&head), sizeof head).append(value);
    return send_unsent(client);
  }

  // A dropped client closes the connection when it has read the reason.
  static bool send_unsent(Client& client) {
    size_t sent = 0;
    while (sent < client.unsent.size()) {
      const ssize_t n = ::send(client.socket.fd(), client.unsent.data() + sent,
                               client.unsent.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN) return false;
      if (n < 0) break;
      sent += static_cast<size_t>(n);
    }
    client.unsent.erase(0, sent);
    if (client.dropped && client.unsent.empty()) shutdown(client.socket.fd(), SHUT_WR);
    return true;
  }

  // Sends the remaining replies to all clients concurrently, for at most kFlushTimeout, so a client
  // that does not read delays no other.
  void flush_replies() {
    const Instant deadline = base::wall_now() + kFlushTimeout;
    while (true) {
      std::vector<pollfd> wanted;
      bool any = false;
      for (const Client& client : clients_) {
        wanted.push_back({client.unsent.empty() ? -1 : client.socket.fd(), POLLOUT, 0});
        any = any || !client.unsent.empty();
      }
      const int64_t left_ms = (deadline - base::wall_now()).ms();
      if (!any || left_ms <= 0) return;
      if (poll(wanted.data(), wanted.size(), static_cast<int>(left_ms)) <= 0) continue;
      for (size_t i = 0; i < clients_.size(); ++i)
        if (wanted[i].revents != 0 && !send_unsent(clients_[i])) clients_[i].unsent.clear();
    }
  }

  base::Socket listener_;
  base::Socket stop_;
  std::vector<Client> clients_;
  std::map<std::string, std::string> values_;
  size_t kept_ = 0;             // bytes of keys and values
  bool accept_paused_ = false;  // no descriptor is left for another connection
  std::thread thread_;
};

// ---- the clients --------------------------------------------------------------------------------

class TcpStore : public Store {
 public:
  TcpStore(base::Socket socket, std::unique_ptr<Server> server)
      : socket_(std::move(socket)), server_(std::move(server)) {}

  Result<void> set(std::string_view key, std::string_view value) override {
    return request('s', key, value);
  }

  Result<std::string> get(std::string_view key, Duration limit) override {
    const Instant deadline = base::wall_now() + limit;
    if (Result<void> sent = request('g', key, ""); !sent) return sent.error();
    while (true) {
      Result<std::optional<std::string>> reply = next_reply();
      if (!reply) return reply.error();
      if (*reply) return std::move(**reply);
      const Result<void> received = base::receive_by(socket_, received_, kReceiveBytes, deadline);
      if (!received && received.error().code == Code::timed_out)
        return Error{Code::timed_out, "key '" + std::string(key) + "' was not set within " +
                                          std::to_string(limit.ms()) +
                                          " ms: are all processes started?"};
      if (!received) return server_lost();
    }
  }

 private:
  // The reply to the last request, if it is complete. Replies to gets that timed out are skipped.
  Result<std::optional<std::string>> next_reply() {
    std::optional<std::string> reply;
    ReplyHead head;
    while (!reply && received_.size() >= sizeof head) {
      std::memcpy(&head, received_.data(), sizeof head);
      if (head.value_bytes > kMaxBytes) return server_lost();
      if (received_.size() < sizeof head + head.value_bytes) break;
      std::string value = received_.substr(sizeof head, head.value_bytes);
      received_.erase(0, sizeof head + head.value_bytes);
      if (head.number == 0) {
        dropped_ = Error{Code::disconnected, "the store has dropped this process: " + value};
        return *dropped_;
      }
      if (head.number == number_) reply = std::move(value);
    }
    return reply;
  }

  // A set has no reply, so a drop or a lost server is detected at the next request.
  Result<void> check_server() {
    if (dropped_) return *dropped_;
    while (true) {
      const Result<void> received = base::receive_by(socket_, received_, kReceiveBytes, Instant());
      for (bool more = true; more;) {  // replies to gets that timed out
        const Result<std::optional<std::string>> reply = next_reply();
        if (!reply) return reply.error();
        more = reply->has_value();
      }
      if (!received && received.error().code == Code::timed_out) return {};
      if (!received) return server_lost();
    }
  }

  Result<void> request(char what, std::string_view key, std::string_view value) {
    if (key.size() > kMaxBytes || value.size() > kMaxBytes)
      return Error{Code::invalid_argument, "keys and values of a store are at most 1 MiB"};
    if (Result<void> checked = check_server(); !checked) return checked;
    const RequestHead head{what,
                           {},
                           ++number_,
                           static_cast<uint32_t>(key.size()),
                           static_cast<uint32_t>(value.size())};
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
    bytes.append(key).append(value);
    if (!send_all(socket_, bytes.data(), bytes.size())) return server_lost();
    return {};
  }
  static Error server_lost() {
    return {Code::disconnected,
            "the process that serves the store has closed the connection: has rank 0 ended?"};
  }

  base::Socket socket_;
  std::unique_ptr<Server> server_;
  std::optional<Error> dropped_;
  uint32_t number_ = 0;   // of the last request
  std::string received_;  // a reply may arrive in parts, and a get may time out before the last
};

Result<std::vector<base::SocketAddress>> resolve_address(std::string_view address, bool serve) {
  Result<base::HostPort> where = base::parse_host_port(address, 0);
  if (where && where->port == 0)
    return Error{Code::invalid_argument, "store address 'tcp:" + std::string(address) +
                                             "' has no port: write tcp:HOST:PORT"};
  if (!where) return where.error();
  return base::resolve(*where, serve && where->host.empty());
}

Result<base::Socket> listen_at(const base::SocketAddress& at) {
  Result<base::Socket> socket = base::start_listen(at);
  if (socket) return socket;
  return Error{socket.error().code, "cannot serve a store: " + socket.error().message};
}

// Retries until the limit: rank 0 may be started later.
Result<base::Socket> connect_to(const base::SocketAddress& to, Duration limit) {
  const Instant deadline = base::wall_now() + limit;
  while (true) {
    Result<base::Socket> socket = base::connect_by(to, deadline);
    if (socket) return socket;
    if (base::wall_now() > deadline)
      return Error{Code::timed_out,
                   "cannot reach the store; is rank 0 started? (" + socket.error().message + ")"};
    usleep(kRetryInterval_us);
  }
}

}  // namespace

Result<std::unique_ptr<Store>> open_tcp_store(std::string_view address, bool serve,
                                              Duration limit) {
  Result<std::vector<base::SocketAddress>> found = resolve_address(address, serve);
  if (!found) return found.error();
  std::unique_ptr<Server> server;
  if (serve) {
    Result<base::Socket> listener = listen_at(found->front());
    if (!listener) return listener.error();
    server = std::make_unique<Server>(std::move(*listener));
  }
  Result<base::Socket> socket = connect_to(found->front(), limit);
  if (!socket) return socket.error();
  return std::unique_ptr<Store>(std::make_unique<TcpStore>(std::move(*socket), std::move(server)));
}

}  // namespace weft::collective
