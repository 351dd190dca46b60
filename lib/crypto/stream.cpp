// SPDX-License-Identifier: BSD-3-Clause
// See stream.hpp. The connecting side sends its terms and the begin of TLS together, so that TLS
// costs one round trip in all. Sends never raise SIGPIPE.
#include "lib/crypto/stream.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"

namespace weft::crypto {

namespace {

// Of TCP at a time. A part of a TLS record stays in the library, which takes 16 KiB of it.
constexpr size_t kReceiveBytes = 16 * 1024;
constexpr size_t kMostDrained = 64 * 1024;  // before closing

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string_view text_of(const TermsBytes& terms) {
  return {reinterpret_cast<const char*>(&terms), sizeof terms};
}

bool waits(const Result<void>& result) {
  return !result && result.error().code == Code::would_block;
}

}  // namespace

Result<Stream> Stream::open(base::Socket socket, Side side, const Terms& terms) {
  Stream stream;
  stream.socket_ = std::move(socket);
  stream.side_ = side;
  stream.terms_ = terms;
  const int flags = fcntl(stream.fd(), F_GETFL);
  if (flags < 0 || fcntl(stream.fd(), F_SETFL, flags | O_NONBLOCK) != 0)
    return base::socket_error(errno, "cannot use the socket");
  if (side == Side::listening) return stream;
  stream.out_ = text_of(terms.bytes());
  if (!terms.uses_tls()) return stream;
  const Result<const Library*> library = load_library();
  if (!library) return library.error();
  Result<std::unique_ptr<Tls>> tls = (*library)->open(side, terms.key, text_of(terms.bytes()));
  if (!tls) return tls.error();
  stream.tls_ = std::move(*tls);
  if (const Result<void> begun = stream.tls_->receive({}, stream.received_, stream.out_); !begun)
    return begun.error();
  return stream;
}

void Stream::end() noexcept {
  if (fd() < 0) return;
  while (!flushed()) {
    WEFT_DCHECK(sent_ < out_.size());
    const ssize_t n =
        ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) break;
    sent_ += static_cast<size_t>(n);
  }
  shutdown(fd(), SHUT_WR);
  char drained[4096];
  for (size_t i = 0; i < kMostDrained / sizeof drained; ++i)
    if (::recv(fd(), drained, sizeof drained, MSG_DONTWAIT) <= 0) break;
  close();
}

Result<void> Stream::flush() {
  while (!flushed()) {
    const ssize_t n = ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (n > 0) {
      sent_ += static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return Error{Code::would_block, "waiting to send to the peer"};
    } else if (n < 0 && errno != EINTR) {
      return base::socket_error(errno, "lost the connection");
    }
  }
  WEFT_DCHECK(sent_ == out_.size());
  out_.clear();
  sent_ = 0;
  return {};
}

Result<void> Stream::receive_raw(size_t most) {
  WEFT_DCHECK(most != 0);  // recv() of no bytes looks like the end of the connection
  const size_t before = raw_.size();
  raw_.resize(before + most);
  for (;;) {
    const ssize_t n = ::recv(fd(), raw_.data() + before, most, MSG_DONTWAIT);
    const int error = n < 0 ? errno : 0;
    if (error == EINTR) continue;
    raw_.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    WEFT_DCHECK(raw_.size() - before <= most);
    bytes_received_ += raw_.size() - before;
    if (n > 0) return {};
    if (n == 0) return Error{Code::disconnected, "the peer closed the connection"};
    if (error == EAGAIN || error == EWOULDBLOCK)
      return Error{Code::would_block, "waiting for the peer"};
    return base::socket_error(error, "lost the connection");
  }
}

Result<void> Stream::exchange_terms() {
  TermsBytes theirs;
  WEFT_DCHECK(step_ == Step::terms && (side_ == Side::connecting || tls_ == nullptr));
  while (raw_.size() < sizeof theirs) {
    if (const Result<void> came = receive_raw(sizeof theirs - raw_.size()); !came) return came;
    const Result<void> begin = check_begin(raw_);
    if (begin) continue;
    // The peer may be another version, and can say so when it has our terms.
    if (side_ == Side::listening) out_.append(text_of(terms_.bytes()));
    return begin;
  }
  WEFT_DCHECK(raw_.size() == sizeof theirs);  // nothing of TLS is read before the terms agree
  std::memcpy(&theirs, raw_.data(), sizeof theirs);
  raw_.clear();
  if (side_ == Side::listening) out_.append(text_of(terms_.bytes()));
  if (const Result<void> agreed = check_terms(terms_, theirs); !agreed) return agreed;
  if (!terms_.uses_tls()) {
    step_ = Step::established;
    return {};
  }
  step_ = Step::tls;
  if (side_ == Side::connecting) return {};
  const Result<const Library*> library = load_library();
  if (!library) return library.error();
  Result<std::unique_ptr<Tls>> tls = (*library)->open(side_, terms_.key, text_of(terms_.bytes()));
  if (!tls) return tls.error();
  tls_ = std::move(*tls);
  return {};
}

Result<void> Stream::continue_tls() {
  WEFT_DCHECK(step_ == Step::tls && tls_ != nullptr && raw_.empty());
  if (const Result<void> came = receive_raw(kMostHandshakeBytes); !came) return came;
  const Result<void> done = tls_->receive(bytes_of(raw_), received_, out_);
  raw_.clear();
  if (!done) return done;
  if (tls_->established()) {
    step_ = Step::established;
    terms_.key = {};
  } else if (bytes_received_ > kMostHandshakeBytes) {
    return Error{Code::permission_denied, "the peer's TLS handshake is larger than 4 KiB"};
  }
  return {};
}

Result<void> Stream::establish() {
  for (;;) {
    Result<void> moved;
    if (step_ == Step::established) return flush();
    if (step_ == Step::terms)
      moved = exchange_terms();
    else
      moved = continue_tls();
    const Result<void> sent = flush();  // an alert, or our terms, too
    if (!moved) return moved;
    if (!sent && !waits(sent)) return sent;
  }
}

Result<void> Stream::queue(std::span<const std::byte> bytes) {
  WEFT_DCHECK(established());
  if (tls_) return tls_->send(bytes, out_);
  out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

Result<void> Stream::receive(size_t most) {
  WEFT_DCHECK(established());
  if (!tls_) {
    raw_.swap(received_);
    const Result<void> came = receive_raw(most);
    raw_.swap(received_);
    return came;
  }
  const size_t before = received_.size();
  do {
    if (const Result<void> came = receive_raw(std::min(most, kReceiveBytes)); !came) return came;
    const Result<void> done = tls_->receive(bytes_of(raw_), received_, out_);
    raw_.clear();
    if (!done) return done;
  } while (received_.size() == before);
  return {};
}

Result<void> Stream::fill(size_t wanted) {
  while (received().size() < wanted)
    if (const Result<void> came = receive(wanted - received().size()); !came) return came;
  return {};
}

void Stream::consume(size_t size) {
  WEFT_DCHECK(size <= received().size() && consumed_ <= received_.size());
  consumed_ += size;
  if (consumed_ < received_.size() / 2 && consumed_ < kReceiveBytes) return;
  received_.erase(0, consumed_);
  consumed_ = 0;
}

Result<void> Stream::establish_by(Instant deadline) {
  for (;;) {
    const Result<void> done = establish();
    if (!waits(done)) return done;
    const short events = flushed() ? POLLIN : POLLIN | POLLOUT;
    if (!base::wait_for(fd(), events, deadline))
      return Error{Code::timed_out, "the peer did not complete the handshake in time"};
  }
}

Result<void> Stream::flush_by(Instant deadline) {
  for (;;) {
    const Result<void> done = flush();
    if (!waits(done)) return done;
    if (!base::wait_for(fd(), POLLOUT, deadline))
      return base::socket_error(ETIMEDOUT, "cannot send in time");
  }
}

Result<void> Stream::receive_by(size_t most, Instant deadline) {
  for (;;) {
    const Result<void> done = receive(most);
    if (!waits(done)) return done;
    if (!base::wait_for(fd(), POLLIN, deadline))
      return base::socket_error(ETIMEDOUT, "cannot receive in time");
  }
}

}  // namespace weft::crypto
