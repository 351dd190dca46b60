// SPDX-License-Identifier: BSD-3-Clause
// The listening side of connection set-up. Peers that have connected but not sent a complete hello
// wait in an Acceptor, where they delay no other and cost no more memory.
#include <poll.h>

#include <algorithm>
#include <mutex>

#include "lib/base/clock.hpp"
#include "lib/base/guarded.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/crypto/acceptor.hpp"
#include "lib/verbs/connect_state.hpp"
#include "weft/connect.hpp"

namespace weft {

using base::guarded;

namespace {

constexpr Duration kServePeriod = Duration::from_ms(20);  // of the handshakes of those that wait
constexpr Duration kSilenceLimit = Duration::from_s(1);   // behind its hello, while others wait

struct Guest {
  verbs::Channel channel;
  verbs::Hello hello;
};

// A guest's hello, if it is complete and the two sides fit.
Result<verbs::Hello> take_hello(verbs::Channel& channel, const verbs::Hello& ours) {
  const Result<verbs::MessageKind> kind = channel.receive();
  if (!kind) return kind.error();
  if (*kind != verbs::MessageKind::hello)
    return Error{Code::invalid_argument, "the first message must be a hello"};
  Result<verbs::Hello> hello = verbs::parse_hello(channel.body());
  if (!hello) return hello;
  if (const Result<void> fit = verbs::check_peer(ours, *hello); !fit) return fit.error();
  channel.next();
  return hello;
}

std::string with_refusal(std::string text, const Listener& listener) {
  const std::optional<Error> refusal = listener.last_refusal();
  return refusal ? text + "; the last that tried was refused: " + refusal->message : text;
}

}  // namespace

struct Listener::State {
  std::mutex mutex;
  crypto::Acceptor acceptor;
  uint16_t port = 0;

  bool serve(const Security& security) {
    const std::lock_guard lock(mutex);
    return acceptor.serve(security);
  }

  // The oldest peer with a complete, acceptable hello. Peers that sent anything else are rejected.
  Result<Guest> next_guest(const verbs::Hello& ours, const Security& security) {
    Guest guest;
    Result<crypto::Stream> stream = acceptor.next(security, [&](crypto::Stream& peer) {
      verbs::Channel channel(std::move(peer));
      Result<verbs::Hello> hello = take_hello(channel, ours);
      const bool refused = !hello && hello.error().code != Code::would_block;
      peer = std::move(channel.stream());
      if (hello) guest.hello = std::move(*hello);
      if (refused) verbs::reject(peer, hello.error().message);
      return hello ? Result<void>() : Result<void>(hello.error());
    });
    if (!stream) return stream.error();
    guest.channel = verbs::Channel(std::move(*stream));
    return guest;
  }
};

Listener::Listener(std::unique_ptr<State> state) : state_(std::move(state)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::listen(std::string_view address) {
  return guarded([&]() -> Result<Listener> {
    Result<base::HostPort> where = base::parse_host_port(address, kDefaultTcpPort);
    if (!where) return where.error();
    Result<std::vector<base::SocketAddress>> addresses = base::resolve(*where, true);
    if (!addresses) return addresses.error();

    auto state = std::make_unique<State>();
    base::Socket socket;
    Error last{Code::not_found, "the host has no address"};
    for (const base::SocketAddress& at : *addresses) {
      Result<base::Socket> started = base::start_listen(at);
      if (started) {
        socket = std::move(*started);
        break;
      }
      last = started.error();
    }
    if (!socket) {
      last.message += " ('" + std::string(address) + "', TCP port " + std::to_string(where->port) +
                      "): choose another port, or the address of this machine";
      return last;
    }
    state->port = base::bound_port(socket);
    Result<crypto::Acceptor> acceptor =
        crypto::Acceptor::listen(std::move(socket), crypto::Purpose::connect);
    if (!acceptor) return acceptor.error();
    state->acceptor = std::move(*acceptor);
    return Listener(std::move(state));
  });
}

uint16_t Listener::port() const noexcept { return state_ ? state_->port : 0; }
int Listener::fd() const noexcept { return state_ ? state_->acceptor.fd() : -1; }

Result<Connector> Listener::try_accept(QueuePair qp, const ConnectOptions& options) {
  return guarded([&]() -> Result<Connector> {
    if (!state_) return Error{Code::bad_state, "this Listener was moved away"};
    Result<verbs::Hello> ours = verbs::make_hello(qp, options);
    if (!ours) return ours.error();
    const std::lock_guard lock(state_->mutex);
    Result<Guest> guest = state_->next_guest(*ours, options.security);
    if (!guest) return guest.error();

    auto state = std::make_unique<Connector::State>();
    state->step = Connector::State::Step::await_peer_ready;
    state->qp = std::move(qp);
    state->options = options;
    state->target = "the peer";
    state->deadline = base::wall_now() + options.limit;
    state->channel = std::move(guest->channel);
    state->peer = std::move(guest->hello);
    state->ours = std::move(*ours);
    if (const Result<void> queued = state->channel.queue(verbs::emit_hello(state->ours)); !queued)
      return queued.error();
    return Connector(std::move(state));
  });
}

std::optional<Error> Listener::last_refusal() const noexcept {
  std::optional<Error> refusal;
  if (!state_) return refusal;
  const std::lock_guard lock(state_->mutex);
  (void)base::memory_permitting([&] { refusal = state_->acceptor.last_refusal(); });
  return refusal;
}

Result<Connection> Listener::accept(QueuePair qp, const ConnectOptions& options) {
  return guarded([&]() -> Result<Connection> {
    const Instant deadline = base::wall_now() + options.limit;
    for (;;) {
      ConnectOptions left = options;
      left.limit = deadline - base::wall_now();
      Result<Connector> connector = try_accept(qp, left);
      if (!connector) {
        if (connector.error().code != Code::would_block) return connector.error();
        if (base::wait_for(fd(), POLLIN, deadline)) continue;
        return Error{Code::timed_out,
                     with_refusal("no peer connected within the time limit", *this)};
      }
      // A stalled peer blocks others, so it is dropped when others wait.
      const Instant stall_limit = base::wall_now() + kSilenceLimit;
      for (bool kept = true; kept;) {
        Result<Connection> connection = connector->advance();
        if (connection) return connection;
        const bool stalls = connection.error().code == Code::would_block;
        // An error before the queue pair was modified: continue with the next peer.
        if (!stalls && connector->state_->qp_modified) return connection;
        if (stalls) {
          const Instant until = std::min(deadline, base::wall_now() + kServePeriod);
          const bool moved = base::wait_for(connector->fd(), connector->poll_events(), until);
          const bool others = state_->serve(options.security);
          kept = moved || base::wall_now() < stall_limit || !others;
        } else {
          kept = false;
        }
      }
      if (base::wall_now() >= deadline)
        return Error{Code::timed_out,
                     with_refusal("no peer completed a connection within the time limit", *this)};
    }
  });
}

}  // namespace weft
