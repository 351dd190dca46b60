// SPDX-License-Identifier: BSD-3-Clause
// What a Connector remembers between two calls of advance(). Both the connecting side (connect.cpp)
// and the listening side (listen.cpp) make one; only connect.cpp moves it on.
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
    dial,     // connecting side: TCP is on its way
    greet,    // connecting side: our hello is on its way, the peer's is awaited
    confirm,  // connecting side: our QP is in RTS, the peer's ready is awaited
    offer,    // listening side: our hello is on its way, the peer's ready is awaited
    finish,   // listening side: our QP is in RTS, our ready is on its way
    done,     // the Connection was handed out
    failed,   // error
  };

  std::mutex mutex;
  Step step = Step::dial;
  QueuePair qp;
  ConnectOptions options;
  std::string target;  // for messages: "host:port" or "the peer"
  Instant deadline;
  std::vector<base::SocketAddress> addresses;
  size_t next_address = 0;
  Channel channel;
  Hello ours;
  Hello peer;
  bool walking = false;  // the QP has been touched
  Error error;
};

// Checks the options and the state of the QP, and writes them down as a hello.
Result<Hello> describe(const QueuePair& qp, const ConnectOptions& options);
// Whether the two can be connected; the error's text is for both sides.
Result<void> check_peer(const Hello& ours, const Hello& peer);

}  // namespace verbs

struct Connector::State : verbs::Handshake {
  // Given up half way: the peer is told, and a queue pair that was touched goes to ERR.
  ~State();
};

}  // namespace weft
