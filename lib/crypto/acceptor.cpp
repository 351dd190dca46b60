// SPDX-License-Identifier: BSD-3-Clause
// See acceptor.hpp. While all places are taken, the listening socket would keep fd() readable, so
// it leaves the epoll set; the timer wakes for the next place that is freed.
#include "lib/crypto/acceptor.hpp"

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/log/log.hpp"

namespace weft::crypto {

namespace {

Result<Stream> open_stream(base::Socket socket, const base::SocketAddress& peer,
                           const Security& security, Purpose purpose) {
  base::tune(socket);
  const Result<Terms> terms = terms_for(security, purpose, peer);
  if (!terms) return terms.error();
  return Stream::open(std::move(socket), Side::listening, *terms);
}

std::string text_of(const base::SocketAddress& peer) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&peer.storage), peer.size, host, sizeof host,
                  port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "a peer";
  const std::string_view mapped = "::ffff:";  // an IPv4 peer of an IPv6 socket
  return (std::string_view(host).starts_with(mapped) ? host + mapped.size() : host) +
         std::string(" port ") + port;
}

}  // namespace

Result<Acceptor> Acceptor::listen(base::Socket socket, Purpose purpose) {
  Acceptor made;
  made.socket_ = std::move(socket);
  made.purpose_ = purpose;
  made.epoll_ = base::Socket(epoll_create1(EPOLL_CLOEXEC));
  made.timer_ = base::Socket(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!made.epoll_ || !made.timer_ || !made.watch(made.socket_.fd()) ||
      !made.watch(made.timer_.fd()))
    return base::socket_error(errno, "cannot make the listener's descriptors");
  made.waiting_.reserve(kPlaces);
  return made;
}

void Acceptor::close() noexcept {
  waiting_.clear();
  socket_.close();
  epoll_.close();
  timer_.close();
}

bool Acceptor::watch(int fd) const noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) == 0;
}

// Zero: not at all.
void Acceptor::wake_in(Duration in) noexcept {
  itimerspec when{};
  when.it_value.tv_sec = in.ms() / 1000;
  when.it_value.tv_nsec = in.ps / 1000 % 1'000'000'000;
  timerfd_settime(timer_.fd(), 0, &when, nullptr);
}

// Takes new peers into free places. False if there were none.
Result<bool> Acceptor::accept_waiting(const Security& security) {
  bool any = false;
  while (waiting_.size() < kPlaces) {
    base::SocketAddress from;
    from.size = sizeof from.storage;
    base::Socket peer(accept4(socket_.fd(), reinterpret_cast<sockaddr*>(&from.storage), &from.size,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!peer && (errno == EINTR || errno == ECONNABORTED)) continue;
    refused_ = !peer && errno != EAGAIN;
    if (!peer) break;
    any = true;
    const int fd = peer.fd();
    const Instant now = base::wall_now();
    Result<Stream> stream = open_stream(std::move(peer), from, security, purpose_);
    if (!stream) return stream.error();
    if (watch(fd)) waiting_.push_back({std::move(*stream), now, now, from});
  }
  WEFT_DCHECK(waiting_.size() <= kPlaces);
  return any;
}

void Acceptor::refuse(size_t index, const Error& why) {
  WEFT_DCHECK(index < waiting_.size() && why.code != Code::would_block);
  Stream refused = std::move(waiting_[index].stream);
  const base::SocketAddress from = waiting_[index].from;
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
  last_refusal_ = Error{why.code, text_of(from) + ": " + why.message};
  const bool said_something = why.code != Code::timed_out && why.code != Code::disconnected;
  base::log(base::Subsystem::connect, said_something ? LogLevel::info : LogLevel::debug,
            [&] { return "refused " + last_refusal_->message; });
  refused.end();
}

// Of all, before one of them is taken: who has to wait for it does not lose its time by that.
void Acceptor::continue_handshakes() {
  for (size_t i = 0; i < waiting_.size();) {
    const Result<void> ready = waiting_[i].stream.establish();
    if (!ready && ready.error().code != Code::would_block)
      refuse(i, ready.error());
    else
      ++i;
  }
}

Result<Stream> Acceptor::find(const Welcome& welcome) {
  continue_handshakes();
  for (size_t i = 0; i < waiting_.size();) {
    Waiting& peer = waiting_[i];
    Stream& stream = peer.stream;
    Result<void> ready = Error{Code::would_block, "not established"};
    if (stream.established()) {
      ready = welcome(stream);
      if (!std::exchange(peer.asked, true)) peer.since = base::wall_now();
    }
    if (ready) {
      WEFT_DCHECK(stream.established());  // only then its peer is one that has the secret
      Stream taken = std::move(stream);
      epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, taken.fd(), nullptr);
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
      return taken;
    }
    if (ready.error().code != Code::would_block) {
      refuse(i, ready.error());
      continue;
    }
    if (stream.bytes_received() != peer.received) peer.active = base::wall_now();
    peer.received = stream.bytes_received();
    ++i;
  }
  return Error{Code::would_block, "no peer waits"};
}

void Acceptor::expire(const Security& security) {
  const Error late{Code::timed_out, "a peer connected and did not say in time who it is"};
  const Instant now = base::wall_now();
  while (!waiting_.empty() && now - waiting_.front().since >= security.limit) refuse(0, late);
  if (waiting_.size() < kPlaces) return;
  const auto silent =
      std::min_element(waiting_.begin(), waiting_.end(),
                       [](const Waiting& a, const Waiting& b) { return a.active < b.active; });
  WEFT_DCHECK(silent != waiting_.end());
  if (now - silent->active >= kCrowdedLimit)
    refuse(static_cast<size_t>(silent - waiting_.begin()), late);
}

bool Acceptor::serve(const Security& security) {
  (void)accept_waiting(security);  // an error is that of the next next()
  continue_handshakes();
  // Bytes of theirs may not be in their sockets any more.
  if (!waiting_.empty()) wake_in(Duration::from_ns(1));
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const Waiting& peer) { return peer.stream.established(); });
}

// Peers are looked at before their time is: the caller may have been busy elsewhere.
Result<Stream> Acceptor::next(const Security& security, const Welcome& welcome) {
  Result<Stream> found = Error{Code::would_block, "no peer waits"};
  bool came = true;
  while (!found && came) {
    found = find(welcome);
    if (found) break;
    if (found.error().code != Code::would_block) return found;
    expire(security);
    const Result<bool> accepted = accept_waiting(security);
    if (!accepted) return accepted.error();
    came = *accepted;
  }
  WEFT_DCHECK(waiting_.size() <= kPlaces);
  const bool full = waiting_.size() == kPlaces || refused_;
  if (full == listens_) {
    listens_ = !full;
    if (full)
      epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, socket_.fd(), nullptr);
    else
      (void)watch(socket_.fd());
  }
  // After one was found, another may be complete whose bytes are not in its socket any more.
  if (found && !waiting_.empty())
    wake_in(Duration::from_ns(1));
  else if (full)
    wake_in(std::min(kCrowdedLimit, security.limit));
  else
    wake_in(waiting_.empty() ? Duration{} : security.limit);
  return found;
}

}  // namespace weft::crypto
