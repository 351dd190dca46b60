// SPDX-License-Identifier: BSD-3-Clause
// An endpoint that exchanges messages of any length with any number of peers, and matches them with
// receives by tag and source. It does no input or output: what comes in are calls, what goes out
// are calls of Io. Messages to one peer are matched in the order in which they were sent, as Io
// keeps the order of SENDs.
//
// Short messages are sent eagerly: each takes a credit, which the receiver returns when a receive
// has taken the message, so that what waits is bounded per peer and in all. Without a credit, and
// where they are long, messages are announced, and the receiver READs them into the receive.
//
// A misbehaving peer's messages are dropped and counted. One thread at a time.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/message/operations.hpp"

namespace weft::message {

class Endpoint {
 public:
  // `io` outlives the endpoint. Throws std::bad_alloc.
  Endpoint(Io& io, const Limits& limits);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Sends a message; ends in Io::complete(), perhaps before this returns. Errors, after which
  // nothing has happened: invalid_argument (more than kMaxPieces), no_memory.
  Code send(const SendMessage& request);
  // Posts a receive. Errors as send().
  Code receive(const ReceiveMessage& request);
  // Takes back a posted receive: true if one with this context was posted. It then ends as
  // canceled, but a buffer into which messages are on their way ends with the last of them.
  bool cancel(const void* context);

  // The first message that waits and that the pattern matches. With `claim` it is set aside for a
  // receive_claimed() with the context.
  std::optional<Peeked> peek(const Pattern& pattern, bool claim, void* context);
  // Receives a message that was claimed with `request.context`. Error: not_found.
  Code receive_claimed(const ReceiveMessage& request);
  // Drops a message that was claimed with the context; its sender sees success. Nothing: none was.
  std::optional<Peeked> discard_claimed(const void* context);

  // A message from a peer; `bytes` may be reused afterwards. Those of kFirstOther and above are
  // not for the endpoint.
  void on_message(Peer from, std::span<const std::byte> bytes);
  // A SEND or a READ has ended. `code` ok: the message is at the peer, the bytes are here.
  void on_sent(void* operation, Code code);
  void on_read(void* operation, Code code);
  // There is room for SENDs and READs again.
  void resume();
  // The peer does not answer: sends to it, and receives that name it, end with `code`. Messages of
  // it that are here stay, and so do credits: it may answer again, and then it has kept its own. A
  // peer that begins anew gets another number.
  void on_peer_failed(Peer peer, Code code);
  // Forgets a peer that is gone for good, whose number may then be another's. False, and nothing
  // has happened: operations or messages of it are here, or receives name it.
  bool forget(Peer peer);
  // The time; sends probes to peers that owe us an answer, and to those that posted receives name:
  // a receive is no message, and without one nothing shows that its peer is gone. When to call it
  // again, or never().
  Instant on_time(Instant now);

  // Sends a probe to a peer that owes the user an answer to a message of its own, unless a message
  // has come or a probe was sent within the last interval, or a probe is on its way: then false.
  bool probe(Peer peer);

  const Counters& counters() const noexcept { return counters_; }

 private:
  friend class Invariants;
  PeerState& state_of(Peer peer);
  // Ends an operation with a peer.
  template <class Kind>
  void give(Pool<Kind>& pool, Kind& operation) {
    PeerState& peer = state_of(operation.peer);
    WEFT_CHECK(peer.operations > 0);
    --peer.operations;
    pool.give(&operation);
  }
  // send.cpp
  bool start(PeerState& peer, SendOperation& operation);
  bool start_eager(PeerState& peer, SendOperation& operation);
  bool start_announced(PeerState& peer, SendOperation& operation);
  void send_queued(PeerState& peer);
  void finish(SendOperation& operation, Code code);
  void on_finished(PeerState& peer, Peer from, const Header& header);
  // credit.cpp
  void return_credit(Peer from, PeerState& peer);
  void note_message(PeerState& peer);
  bool post_control(Peer to, const Header& header);
  bool send_controls();
  void on_control_sent(ControlOperation& control, Code code);
  // receive.cpp
  void on_eager(Peer from, PeerState& peer, const Header& header,
                std::span<const std::byte> payload);
  void on_announced(Peer from, PeerState& peer, const Header& header);
  void deliver(ReceiveOperation& receive, const Envelope& envelope, const Header& header,
               std::span<const std::byte> payload);
  void begin_transfer(ReceiveOperation& receive, const Envelope& envelope, const Header& header);
  bool issue_reads(Transfer& transfer);
  void finish_transfer(Transfer& transfer);
  void answer(Peer to, uint32_t transfer, bool failed);
  size_t reserve(ReceiveOperation& receive, size_t length) noexcept;
  void complete_receive(ReceiveOperation& receive, const Completed& completed);
  void take(ReceiveOperation& receive, WaitingMessage& message);
  void keep(const Envelope& envelope, const Header& header, std::span<const std::byte> payload);

  Io& io_;
  const Limits limits_;
  std::vector<std::unique_ptr<PeerState>> peers_;
  PostedQueue posted_;
  WaitingQueue waiting_;
  List<WaitingMessage, 0> claimed_;
  List<ControlOperation, 0> unsent_controls_;
  List<Transfer, 0> stalled_;  // transfers whose next READ found no room
  std::unordered_map<uint32_t, SendOperation*> announced_;  // by transfer
  Pool<SendOperation> sends_;
  Pool<ControlOperation> controls_;
  Pool<ReceiveOperation> receives_;
  Pool<WaitingMessage> messages_;
  Pool<Transfer> transfers_;
  uint32_t next_transfer_ = 1;
  uint32_t extra_granted_ = 0;  // credits of all peers beyond kFirstCredits
  Peer named_cursor_ = 0;       // the peer that on_time() has looked at last, for receives' sake
  Instant next_named_;          // when it does so again
  std::vector<Peer> blocked_;   // peers with unsent messages
  Instant now_;
  Counters counters_;
};

// Checks what is true of an endpoint between two calls, at the cost of a walk over everything.
void check_invariants(const Endpoint& endpoint);

}  // namespace weft::message
