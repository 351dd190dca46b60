// SPDX-License-Identifier: BSD-3-Clause
// A store over TCP: a thread in one process keeps the map, all processes (that one too) are
// clients. A request is a letter ('s'et or 'g'et), its number, two lengths of 32 bits in host
// order, the key and the value; the reply to a get is its number, a length and the value, sent when
// the key exists. Bytes go through streams (lib/crypto/stream.hpp): who has the job's secret
// may read and write, others are refused before a request of theirs is read. No client can block
// the others: the server's sockets are non-blocking, and unsent replies per client are limited; a
// client that exceeds a limit is dropped: it gets the reason in a reply with number 0, and its
// requests are ignored.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/tcp.hpp"
#include "lib/collective/bootstrap/store.hpp"
#include "lib/crypto/acceptor.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kMaxBytes = 1 << 20;               // of a key or a value
constexpr size_t kReceiveBytes = 64 * 1024;           // of one receive
constexpr size_t kMaxUnsent = 4 * size_t{kMaxBytes};  // of replies to a client that does not read
constexpr size_t kMaxStored = size_t{1} << 30;        // of all keys and values
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

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

bool waits(const Result<void>& result) {
  return !result && result.error().code == Code::would_block;
}

// ---- the server ---------------------------------------------------------------------------------

struct Client {
  crypto::Stream stream;
  std::string pending_key;  // of the one outstanding get
  uint32_t number = 0;
  bool get_pending = false;
  bool dropped = false;
};

class Server {
 public:
  Server(crypto::Acceptor acceptor, Security security)
      : acceptor_(std::move(acceptor)),
        security_(std::move(security)),
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
      std::vector<pollfd> wanted = {{stop_.fd(), POLLIN, 0}, {acceptor_.fd(), POLLIN, 0}};
      for (const Client& client : clients_) {
        const short writes = client.stream.flushed() ? 0 : POLLOUT;
        wanted.push_back({client.stream.fd(), static_cast<short>(POLLIN | writes), 0});
      }
      if (poll(wanted.data(), wanted.size(), -1) < 0) continue;
      if (wanted[0].revents != 0) return flush_replies();
      for (size_t i = clients_.size(); i-- > 0;)
        if (wanted[i + 2].revents != 0 && !serve(clients_[i]))
          clients_.erase(clients_.begin() + static_cast<ptrdiff_t>(i));
      if (wanted[1].revents != 0) admit();
    }
  }

  // A new client may have sent requests together with the end of its handshake.
  void admit() {
    const auto always = [](crypto::Stream&) { return Result<void>(); };
    while (true) {
      Result<crypto::Stream> stream = acceptor_.next(security_, always);
      if (!stream) return;
      clients_.push_back({.stream = std::move(*stream)});
      if (!serve(clients_.back())) clients_.pop_back();
    }
  }

  // Receives requests and sends unsent replies. False: the connection is closed.
  bool serve(Client& client) {
    if (!send_unsent(client)) return false;
    const Result<void> came = client.stream.receive(4096);
    const bool open = came || waits(came);  // else these are the last requests
    RequestHead head;
    while (client.stream.received().size() >= sizeof head && !client.dropped) {
      const std::string_view received = client.stream.received();
      std::memcpy(&head, received.data(), sizeof head);
      if (head.key_bytes > kMaxBytes || head.value_bytes > kMaxBytes ||
          (head.what != 's' && head.what != 'g'))
        return drop(client, "its request is malformed or larger than 1 MiB");
      const size_t size = sizeof head + head.key_bytes + head.value_bytes;
      if (received.size() < size) return open;
      const std::string key(received.substr(sizeof head, head.key_bytes));
      std::string value(received.substr(sizeof head + head.key_bytes, head.value_bytes));
      client.stream.consume(size);
      if (head.what == 's' ? !set(client, key, std::move(value)) : !get(client, key, head.number))
        return false;
    }
    if (client.dropped) client.stream.consume(client.stream.received().size());
    return open;
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
    if (client.stream.unsent() + found->second.size() > kMaxUnsent)
      return drop(client, "it requested more than 4 MiB of values and did not read them");
    return queue_reply(client, client.number, found->second);
  }

  bool drop(Client& client, const std::string& why) {
    client.dropped = true;
    client.get_pending = false;
    client.stream.consume(client.stream.received().size());
    return queue_reply(client, 0, why);
  }

  bool queue_reply(Client& client, uint32_t number, const std::string& value) {
    const ReplyHead head{number, static_cast<uint32_t>(value.size())};
    const std::string_view bytes(reinterpret_cast<const char*>(&head), sizeof head);
    return client.stream.queue(bytes_of(bytes)) && client.stream.queue(bytes_of(value)) &&
           send_unsent(client);
  }

  // A dropped client closes the connection when it has read the reason.
  static bool send_unsent(Client& client) {
    const Result<void> sent = client.stream.flush();
    if (sent && client.dropped) shutdown(client.stream.fd(), SHUT_WR);
    return sent || waits(sent);
  }

  // Sends the remaining replies to all clients concurrently, for at most kFlushTimeout, so a client
  // that does not read delays no other.
  void flush_replies() {
    const Instant deadline = base::wall_now() + kFlushTimeout;
    while (true) {
      std::vector<pollfd> wanted;
      bool any = false;
      for (const Client& client : clients_) {
        wanted.push_back({client.stream.flushed() ? -1 : client.stream.fd(), POLLOUT, 0});
        any = any || !client.stream.flushed();
      }
      const int64_t left_ms = (deadline - base::wall_now()).ms();
      if (!any || left_ms <= 0) return;
      if (poll(wanted.data(), wanted.size(), static_cast<int>(left_ms)) <= 0) continue;
      for (size_t i = 0; i < clients_.size(); ++i)
        if (wanted[i].revents != 0 && !send_unsent(clients_[i])) clients_[i].stream = {};
    }
  }

  crypto::Acceptor acceptor_;
  const Security security_;
  base::Socket stop_;
  std::vector<Client> clients_;
  std::map<std::string, std::string> values_;
  size_t kept_ = 0;  // bytes of keys and values
  std::thread thread_;
};

// ---- the clients --------------------------------------------------------------------------------

class TcpStore : public Store {
 public:
  TcpStore(crypto::Stream stream, std::unique_ptr<Server> server)
      : stream_(std::move(stream)), server_(std::move(server)) {}

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
      const Result<void> received = stream_.receive_by(kReceiveBytes, deadline);
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
    while (!reply && stream_.received().size() >= sizeof head) {
      std::memcpy(&head, stream_.received().data(), sizeof head);
      if (head.value_bytes > kMaxBytes) return server_lost();
      if (stream_.received().size() < sizeof head + head.value_bytes) break;
      std::string value(stream_.received().substr(sizeof head, head.value_bytes));
      stream_.consume(sizeof head + head.value_bytes);
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
      const Result<void> received = stream_.receive(kReceiveBytes);
      for (bool more = true; more;) {  // replies to gets that timed out
        const Result<std::optional<std::string>> reply = next_reply();
        if (!reply) return reply.error();
        more = reply->has_value();
      }
      if (waits(received)) return {};
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
    if (!stream_.queue(bytes_of(bytes)) || !stream_.flush_by(Instant::never()))
      return server_lost();
    return {};
  }
  static Error server_lost() {
    return {Code::disconnected,
            "the process that serves the store has closed the connection: has rank 0 ended?"};
  }

  crypto::Stream stream_;  // a reply may arrive in parts, and a get may time out before the last
  std::unique_ptr<Server> server_;
  std::optional<Error> dropped_;
  uint32_t number_ = 0;  // of the last request
};

Result<std::vector<base::SocketAddress>> resolve_address(std::string_view address, bool serve) {
  Result<base::HostPort> where = base::parse_host_port(address, 0);
  if (where && where->port == 0)
    return Error{Code::invalid_argument, "store address 'tcp:" + std::string(address) +
                                             "' has no port: write tcp:HOST:PORT"};
  if (!where) return where.error();
  return base::resolve(*where, serve && where->host.empty());
}

Result<crypto::Acceptor> listen_at(const base::SocketAddress& at) {
  Result<base::Socket> socket = base::start_listen(at);
  if (socket) return crypto::Acceptor::listen(std::move(*socket), crypto::Purpose::store);
  return Error{socket.error().code, "cannot serve a store: " + socket.error().message};
}

Result<crypto::Stream> connect_once(const base::SocketAddress& to, const crypto::Terms& terms,
                                    Instant deadline) {
  Result<base::Socket> socket = base::connect_by(to, deadline);
  if (!socket) return socket.error();
  Result<crypto::Stream> stream =
      crypto::Stream::open(std::move(*socket), crypto::Side::connecting, terms);
  if (!stream) return stream;
  const Result<void> agreed = stream->establish_by(deadline);
  return agreed ? std::move(stream) : Result<crypto::Stream>(agreed.error());
}

// Retries until the limit: rank 0 may be started later, or have no time now. Who is refused by it
// is not asked to wait.
Result<crypto::Stream> connect_to(const base::SocketAddress& to, std::string_view address,
                                  const Security& security, Duration limit) {
  const Result<crypto::Terms> terms = crypto::terms_for(security, crypto::Purpose::store, to);
  if (!terms) return terms.error();
  if (terms->mode == crypto::Mode::none)
    return crypto::needs_secret("store tcp:" + std::string(address));
  const Instant deadline = base::wall_now() + limit;
  while (true) {
    const Instant until = std::min(deadline, base::wall_now() + security.limit);
    Result<crypto::Stream> stream = connect_once(to, *terms, until);
    if (stream) return stream;
    const Error& why = stream.error();
    if (why.code == Code::permission_denied || why.code == Code::not_supported ||
        why.code == Code::invalid_argument)
      return Error{why.code, "the store tcp:" + std::string(address) + ": " + why.message};
    if (base::wall_now() > deadline)
      return Error{Code::timed_out,
                   "cannot reach the store; is rank 0 started? (" + why.message + ")"};
    usleep(kRetryInterval_us);
  }
}

}  // namespace

Result<std::unique_ptr<Store>> open_tcp_store(std::string_view address, bool serve, Duration limit,
                                              const Security& security) {
  Result<std::vector<base::SocketAddress>> found = resolve_address(address, serve);
  if (!found) return found.error();
  std::unique_ptr<Server> server;
  if (serve) {
    Result<crypto::Acceptor> acceptor = listen_at(found->front());
    if (!acceptor) return acceptor.error();
    server = std::make_unique<Server>(std::move(*acceptor), security);
  }
  Result<crypto::Stream> stream = connect_to(found->front(), address, security, limit);
  if (!stream) return stream.error();
  return std::unique_ptr<Store>(std::make_unique<TcpStore>(std::move(*stream), std::move(server)));
}

}  // namespace weft::collective
