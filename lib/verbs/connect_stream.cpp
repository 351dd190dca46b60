// SPDX-License-Identifier: BSD-3-Clause
// The first steps of the connecting side: TCP to one of the host's addresses, and the handshake of
// the stream.
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/clock.hpp"
#include "lib/verbs/connect_state.hpp"

namespace weft::verbs {

using Step = Handshake::Step;

// A listener that closes later than this after TCP connected had no time to look at us in ours:
// it is asked again.
constexpr Duration kDroppedAfter = Duration::from_s(1);

Result<void> connect_next_address(Handshake& s) {
  Error last{Code::not_found, "the host has no address (" + s.target + ")"};
  while (s.next_address < s.addresses.size()) {
    const base::SocketAddress& address = s.addresses[s.next_address++];
    Result<crypto::Terms> terms =
        crypto::terms_for(s.options.security, crypto::Purpose::connect, address);
    if (!terms) return terms.error();
    if (terms->mode == crypto::Mode::none) {
      last = crypto::needs_secret(s.target);
      continue;
    }
    Result<base::Socket> socket = base::start_connect(address);
    if (socket) {
      s.socket = std::move(*socket);
      s.terms = *terms;
      return {};
    }
    last = socket.error();
    last.message += " (" + s.target + ")";
  }
  return last;
}

Result<void> tcp_connect(Handshake& s) {
  pollfd p{s.socket.fd(), POLLOUT, 0};
  if (poll(&p, 1, 0) <= 0) return Error{Code::would_block, "TCP is connecting"};
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(s.socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error == 0) {
    Result<crypto::Stream> stream =
        crypto::Stream::open(std::move(s.socket), crypto::Side::connecting, s.terms);
    if (!stream) return stream.error();
    s.channel = Channel(std::move(*stream));
    s.step = Step::agree_on_terms;
    s.connected_at = base::wall_now();
    return {};
  }
  if (s.next_address < s.addresses.size()) return connect_next_address(s);
  if (error == ECONNREFUSED)
    return Error{Code::not_found,
                 "no listener at " + s.target + ": start the server first, check host and port"};
  return base::socket_error(error, "cannot connect to " + s.target);
}

Result<void> agree_on_terms(Handshake& s) {
  crypto::Stream& stream = s.channel.stream();
  if (const Result<void> agreed = stream.establish(); !agreed) {
    const Instant now = base::wall_now();
    if (agreed.error().code == Code::disconnected && now - s.connected_at >= kDroppedAfter) {
      s.next_address = 0;
      s.step = Step::tcp_connect;
      s.handshake_until = Instant::never();
      return connect_next_address(s);
    }
    if (agreed.error().code != Code::would_block || stream.bytes_received() == 0) return agreed;
    s.handshake_until = std::min(s.handshake_until, now + s.options.security.limit);
    if (now < s.handshake_until) return agreed;
    return Error{Code::timed_out, s.target + " did not complete the handshake in time"};
  }
  s.step = Step::exchange_hello;
  return s.channel.queue(emit_hello(s.ours));
}

}  // namespace weft::verbs
