// SPDX-License-Identifier: BSD-3-Clause
// A listening socket and the peers that have connected to it but not yet shown who they are. They
// occupy a fixed number of places, so that silent, slow or hostile ones cost no more memory and
// delay no other: each has its time, and when all places are taken, who has said nothing for
// kCrowdedLimit goes. Further peers wait in the kernel's backlog.
//
// fd() is an epoll descriptor that is readable exactly when next() has work: a new peer, bytes from
// a waiting one, or a place that may be freed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/tcp.hpp"
#include "lib/crypto/stream.hpp"
#include "weft/result.hpp"

namespace weft::crypto {

class Acceptor {
 public:
  static constexpr size_t kPlaces = 256;
  static constexpr Duration kCrowdedLimit = Duration::from_ms(250);

  // Whether an established stream may be handed out. Errors: would_block (its first message is not
  // complete); any other one refuses the peer.
  using Welcome = std::function<Result<void>(Stream&)>;

  Acceptor() = default;
  static Result<Acceptor> listen(base::Socket socket, Purpose purpose);

  int fd() const noexcept { return epoll_.fd(); }
  uint16_t port() const noexcept { return base::bound_port(socket_); }
  void close() noexcept;

  // The oldest peer that is established and welcome. Errors: would_block (none is), and what keeps
  // this side from having terms at all: its secret, its cryptographic library.
  Result<Stream> next(const Security& security, const Welcome& welcome);
  // Continues the handshakes of those that wait, for a caller that is busy with the peer that it
  // took and will call next() later. True if one of them is established.
  bool serve(const Security& security);
  // Why the last peer was refused; empty: none was.
  const std::optional<Error>& last_refusal() const noexcept { return last_refusal_; }

 private:
  struct Waiting {
    Stream stream;
    Instant since;   // its time counts from here: from arrival, or the first question
    Instant active;  // when bytes came last
    base::SocketAddress from;
    size_t received = 0;  // bytes
    bool asked = false;   // for its first message
  };

  bool watch(int fd) const noexcept;
  Result<bool> accept_waiting(const Security& security);
  void refuse(size_t index, const Error& why);
  void continue_handshakes();
  Result<Stream> find(const Welcome& welcome);
  void expire(const Security& security);
  void wake_in(Duration in) noexcept;

  base::Socket socket_, epoll_, timer_;
  Purpose purpose_ = Purpose::connect;
  bool listens_ = true;           // the listening socket is in the epoll set
  bool refused_ = false;          // the system has no descriptor for another peer
  std::vector<Waiting> waiting_;  // in order of arrival
  std::optional<Error> last_refusal_;
};

}  // namespace weft::crypto
