// SPDX-License-Identifier: BSD-3-Clause
// The state of a Connector between two calls of advance(). Both the connecting side (connect.cpp)
// and the listening side (listen.cpp) create one; connect.cpp advances it.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/verbs/connect_tcp.hpp"
#include "lib/verbs/connect_wire.hpp"
#include "weft/connect.hpp"

namespace weft {
namespace verbs {

struct Handshake {
  enum class Step : uint8_t {
    tcp_connect,       // connecting side: TCP connects
    agree_on_terms,    // connecting side: handshake of the stream
    exchange_hello,    // connecting side: sends hello, waits for the peer's hello
    await_ready,       // connecting side: our QP is in RTS, waits for the peer's ready
    await_peer_ready,  // listening side: sends hello, waits for the peer's ready
    send_ready,        // listening side: our QP is in RTS, sends ready
    done,              // the Connection was returned
    failed,            // see `error`
  };

  std::mutex mutex;
  Step step = Step::tcp_connect;
  QueuePair qp;
  ConnectOptions options;
  std::string target;  // for messages: "host:port" or "the peer"
  Instant deadline;
  std::vector<base::SocketAddress> addresses;
  size_t next_address = 0;
  base::Socket socket;                         // while TCP connects; then in `channel`
  crypto::Terms terms;                         // for the peer at its address
  Instant connected_at;                        // by TCP
  Instant handshake_until = Instant::never();  // from the first byte of the peer
  Channel channel;
  Hello ours;
  Hello peer;
  bool qp_modified = false;  // modify() was called: on failure the QP goes to ERR
  Error error;
};

// Checks the options and the state of the QP; returns the hello to send.
Result<Hello> make_hello(const QueuePair& qp, const ConnectOptions& options);
// Whether the two sides can be connected; the error's text is for both.
Result<void> check_peer(const Hello& ours, const Hello& peer);

// Starts a TCP connection to the next address for which that succeeds and terms are known.
Result<void> connect_next_address(Handshake& s);
// The steps of these names.
Result<void> tcp_connect(Handshake& s);
Result<void> agree_on_terms(Handshake& s);

}  // namespace verbs

struct Connector::State : verbs::Handshake {
  // Aborts an unfinished exchange: sends a reject, and moves a modified queue pair to ERR.
  ~State();
};

}  // namespace weft
