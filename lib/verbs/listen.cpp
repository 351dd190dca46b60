// SPDX-License-Identifier: BSD-3-Clause
// The listening side of connection set-up. Peers that have connected but not sent a complete hello
// occupy a fixed number of slots, allocated when listening starts, so that a silent or slow peer
// delays no other and costs no memory. When all slots are in use, further peers wait in the
// kernel's backlog, and the oldest silent peer is dropped after kSilenceLimit.
//
// fd() is an epoll descriptor that is readable exactly when try_accept() has work: a new peer,
// bytes from a waiting one, or a slot that may be freed.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/guarded.hpp"
#include "lib/verbs/connect_state.hpp"
#include "weft/connect.hpp"

namespace weft {

using base::guarded;

namespace {

constexpr size_t kSlots = 32;
constexpr Duration kSilenceLimit = Duration::from_s(1);  // while all slots are in use
constexpr Duration kHelloLimit = Duration::from_s(10);   // otherwise

struct Waiting {
  verbs::Channel channel;
  Instant since;
};

}  // namespace

struct Listener::State {
  std::mutex mutex;
  base::Socket socket;
  base::Socket epoll;
  base::Socket timer;
  uint16_t port = 0;
  bool full = false;  // all slots in use: the timer is in the epoll set, not the listening socket
  std::vector<Waiting> waiting;  // in order of arrival; at most kSlots, its initial capacity

  bool watch(int fd) const noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    return epoll_ctl(epoll.fd(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  // Accepts new peers into free slots. False if there were none.
  bool accept_waiting() {
    bool any = false;
    while (waiting.size() < kSlots) {
      const int fd = accept4(socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (fd < 0) break;
      base::Socket peer(fd);
      base::tune(peer);
      if (!watch(fd)) continue;
      waiting.push_back({verbs::Channel(std::move(peer)), base::wall_now()});
      any = true;
    }
    return any;
  }

  // Drops peers without a complete hello after their time limit.
  void expire() {
    const Instant now = base::wall_now();
    while (!waiting.empty()) {
      const Duration age = now - waiting.front().since;
      if (age < (waiting.size() == kSlots ? kSilenceLimit : kHelloLimit)) return;
      waiting.erase(waiting.begin());
    }
  }

  // While all slots are in use, the listening socket would keep fd() readable, so it is replaced by
  // a timer in the epoll set.
  void update_polled_descriptor() {
    WEFT_DCHECK(waiting.size() <= kSlots);
    const bool now_full = waiting.size() == kSlots;
    if (now_full) {
      itimerspec in{};
      in.it_value.tv_nsec = 100'000'000;
      timerfd_settime(timer.fd(), 0, &in, nullptr);
    }
    if (now_full == full) return;
    full = now_full;
    epoll_ctl(epoll.fd(), EPOLL_CTL_DEL, full ? socket.fd() : timer.fd(), nullptr);
    (void)watch(full ? timer.fd() : socket.fd());
  }

  // The oldest peer with a complete, acceptable hello. Peers that sent anything else are rejected.
  Result<std::pair<verbs::Channel, verbs::Hello>> next_peer(const verbs::Hello& ours) {
    for (size_t i = 0; i < waiting.size();) {
      verbs::Channel& channel = waiting[i].channel;
      const Result<verbs::MessageKind> kind = channel.receive();
      if (!kind && kind.error().code == Code::would_block) {
        ++i;
        continue;
      }
      Error error;
      if (!kind) {
        error = kind.error();
      } else if (*kind != verbs::MessageKind::hello) {
        error.message = "the first message must be a hello";
      } else if (Result<verbs::Hello> hello = verbs::parse_hello(channel.body()); !hello) {
        error = hello.error();
      } else if (const Result<void> fit = verbs::check_peer(ours, *hello); !fit) {
        error = fit.error();
      } else {
        verbs::Channel taken = std::move(channel);
        epoll_ctl(epoll.fd(), EPOLL_CTL_DEL, taken.fd(), nullptr);
        waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(i));
        taken.next();
        return std::pair{std::move(taken), std::move(*hello)};
      }
      channel.reject(error.message);
      waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(i));
    }
    return Error{Code::would_block, "no peer waits"};
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
    Error last{Code::not_found, "the host has no address"};
    for (const base::SocketAddress& at : *addresses) {
      Result<base::Socket> socket = base::start_listen(at);
      if (socket) {
        state->socket = std::move(*socket);
        break;
      }
      last = socket.error();
    }
    if (!state->socket) {
      last.message += " ('" + std::string(address) + "', TCP port " + std::to_string(where->port) +
                      "): choose another port, or the address of this machine";
      return last;
    }
    state->port = base::bound_port(state->socket);
    state->epoll = base::Socket(epoll_create1(EPOLL_CLOEXEC));
    state->timer = base::Socket(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!state->epoll || !state->timer || !state->watch(state->socket.fd()))
      return base::socket_error(errno, "cannot make the listener's descriptors");
    state->waiting.reserve(kSlots);
    return Listener(std::move(state));
  });
}

uint16_t Listener::port() const noexcept { return state_ ? state_->port : 0; }
int Listener::fd() const noexcept { return state_ ? state_->epoll.fd() : -1; }

Result<Connector> Listener::try_accept(QueuePair qp, const ConnectOptions& options) {
  return guarded([&]() -> Result<Connector> {
    if (!state_) return Error{Code::bad_state, "this Listener was moved away"};
    Result<verbs::Hello> ours = verbs::make_hello(qp, options);
    if (!ours) return ours.error();
    const std::lock_guard lock(state_->mutex);
    Result<std::pair<verbs::Channel, verbs::Hello>> peer =
        Error{Code::would_block, "no peer waits"};
    do {
      state_->expire();
      const bool came = state_->accept_waiting();
      peer = state_->next_peer(*ours);
      if (!came) break;
    } while (!peer && peer.error().code == Code::would_block);
    state_->update_polled_descriptor();
    if (!peer) return peer.error();

    auto state = std::make_unique<Connector::State>();
    state->step = Connector::State::Step::await_peer_ready;
    state->qp = std::move(qp);
    state->options = options;
    state->target = "the peer";
    state->deadline = base::wall_now() + options.limit;
    state->channel = std::move(peer->first);
    state->peer = std::move(peer->second);
    state->ours = std::move(*ours);
    state->channel.queue(verbs::emit_hello(state->ours));
    return Connector(std::move(state));
  });
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
        return Error{Code::timed_out, "no peer connected within the time limit"};
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
          const Instant until = std::min(deadline, base::wall_now() + Duration::from_ms(100));
          const bool moved = base::wait_for(connector->fd(), connector->poll_events(), until);
          kept =
              moved || base::wall_now() < stall_limit || !base::wait_for(fd(), POLLIN, Instant{});
        } else {
          kept = false;
        }
      }
      if (base::wall_now() >= deadline)
        return Error{Code::timed_out, "no peer completed a connection within the time limit"};
    }
  });
}

}  // namespace weft
