// SPDX-License-Identifier: BSD-3-Clause
// What an endpoint of messages takes and returns: requests, completions, and the calls by which it
// asks its user for input and output.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/message/match.hpp"
#include "weft/result.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::message {

// Bytes of one READ, at most.
inline constexpr size_t kMostPerRead = size_t{1} << 30;

struct Limits {
  uint32_t eager_bytes = 4096;  // payload of an eager message, at most; longer ones are announced
  uint32_t inline_bytes = 128;  // Io::send() copies messages up to this, header included
  uint32_t credits = 64;        // eager messages of a peer that may be unmatched here
  uint32_t total_credits = 65536;  // the same of all peers together, beyond kFirstCredits of each
  Duration probe_interval = Duration::from_ms(100);  // to peers from which something is awaited
  uint32_t named_probes = 64;  // in an interval, to peers that only receives name
};

struct SendMessage {
  Peer to = 0;
  bool tagged = false;
  uint64_t tag = 0;
  bool has_data = false;
  uint64_t data = 0;              // immediate data
  std::span<const iovec> pieces;  // at most kMaxPieces; the span lives during the call only
  bool copies = false;            // the memory may be reused when the call returns
  bool until_matched = false;     // completes when the receiver has placed the message
  void* context = nullptr;        // returned in Completed
  uint64_t cookie = 0;            // likewise
};

struct ReceiveMessage {
  Pattern pattern;
  std::span<const iovec> pieces;  // at most kMaxPieces; the span lives during the call only
  // Not 0: the buffer takes messages, one behind the other, until less than this is left.
  size_t least_room = 0;
  void* context = nullptr;
  uint64_t cookie = 0;
};

// The end of a send or of a message's way into a receive.
struct Completed {
  bool received = false;
  Code code = Code::ok;  // canceled; peer_failed; io_error; mismatch: cut, see `beyond`
  bool released = true;  // received: the receive takes no more messages
  Envelope envelope;
  bool has_data = false;
  uint64_t data = 0;
  void* buffer = nullptr;  // received: where the message begins
  size_t length = 0;       // bytes placed
  size_t beyond = 0;       // bytes of the message that had no room
  void* context = nullptr;
  uint64_t cookie = 0;
};

// A message that waits, as peek() shows it.
struct Peeked {
  Envelope envelope;
  bool has_data = false;
  uint64_t data = 0;
  size_t length = 0;
};

// Memory that a peer may READ until the object is destroyed.
struct Exposed {
  std::shared_ptr<const void> owner;
  RKey key;
};

// What the user of an endpoint does for it. Called from within calls of the endpoint, which these
// must not call in turn.
class Io {
 public:
  virtual ~Io() = default;
  // Sends header and payload as one message, ordered behind earlier ones to the peer. True: it was
  // taken; Endpoint::on_sent(operation) follows once, later; header and payload stay as they are
  // until then, unless they are Limits::inline_bytes or less together. False: there is no room now,
  // call Endpoint::resume() when there is.
  virtual bool send(Peer to, std::span<const std::byte> header, std::span<const iovec> payload,
                    void* operation) = 0;
  // READs a peer's memory. True: Endpoint::on_read(operation) follows once. False: as send().
  virtual bool read(Peer from, uint64_t address, RKey key, iovec into, void* operation) = 0;
  // Lets peers READ memory.
  virtual Result<Exposed> expose(iovec memory) = 0;
  // An operation has ended.
  virtual void complete(const Completed& completed) = 0;
};

// Counts since construction, but for `copied`.
struct Counters {
  size_t copied = 0;           // sends with SendMessage::copies that have not completed
  uint64_t unexpected = 0;     // messages that no receive waited for
  uint64_t announced = 0;      // sends by rendezvous
  uint64_t violations = 0;     // messages that break the protocol; dropped
  uint64_t out_of_memory = 0;  // messages that could not be kept; dropped
};

}  // namespace weft::message
