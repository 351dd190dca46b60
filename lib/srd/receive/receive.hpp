// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of the SRD engine: free functions over ReceiveContext, the peer whose stream
// they serve, and the packet that arrived. Each file is one step; this page lists what they offer
// to the rest. They use the sending half for responses, which are messages, and for what packets
// say of our stream.
#pragma once

#include <unordered_map>
#include <vector>

#include "lib/congestion/rccc.hpp"
#include "lib/srd/send/send.hpp"
#include "lib/srd/state/assembly.hpp"
#include "lib/srd/state/peer_table.hpp"

namespace weft::srd {

// An unsequenced packet that waits for transmit(): a refusal, a reset, a welcome, a response about
// rails.
struct Reply {
  Destination to;
  wire::SrdPacket packet;
  uint32_t challenge = 0;
  wire::SrdHello hello = {};
};

// Peers whose acknowledgement is queued.
struct AckQueue {
  base::Line<Peer, &Peer::ack_link> queue;
  uint32_t turn = 0;   // calls of transmit()
  bool first = false;  // before data: the last call had no room for them, or a flush was requested
};

// Credit that is granted to senders (credit.cpp).
struct CreditGrants {
  explicit CreditGrants(const congestion::CreditPacer::Rules& rules) : pacer(rules) {}

  congestion::CreditPacer pacer;
  std::vector<uint32_t> peers;          // by the pacer's sender number: index in the peer table
  Instant grant_at = Instant::never();  // the next one
  Instant no_grant_before;
};

// Queue pairs whose receives are for peers in their RNR queue (rnr.cpp).
struct RnrSchedule {
  base::Line<QueuePair, &QueuePair::ready_link> ready;          // may have a receive for a waiter
  base::Line<QueuePair, &QueuePair::reserving_link> reserving;  // have reservations
  Instant expires_at = Instant::never();                        // the first of those
};

struct ReceiveContext : SendContext {
  static constexpr size_t kMostReplies = 256;  // more are lost, as on a wire

  ReceiveContext(Port& port, const Config& config, base::SecureRandom& random);

  PeerTable peers;
  std::unordered_map<Alias, uint32_t, AliasHash> aliases;  // of peers: index in the table
  AssemblyTable assemblies;
  uint32_t ordered_streams = 0;  // received streams with ordered SENDs
  CreditGrants credit;
  AckQueue acks;
  std::vector<Reply> replies;
  RnrSchedule rnr;
  std::vector<std::byte> scratch;  // payload that is added, not placed
};

enum class Outcome : uint8_t { executed, refused, dropped };

// receive.cpp
void receive_frame(ReceiveContext& ctx, const Frame& frame, Instant now) noexcept;

// admit.cpp
// The peer whose present stream the packet belongs to, perhaps a new one; null: none.
Peer* admit_stream(ReceiveContext& ctx, Peer* peer, const Arrival& arrival) noexcept;
// Drops what was received in part, and responses that wait.
void end_receive_stream(ReceiveContext& ctx, Peer& peer) noexcept;
// And accepts no stream of that process any more.
void end_introduction(ReceiveContext& ctx, Peer& peer) noexcept;

// introduce.cpp: hello and welcome
// Answers without state.
void on_hello(ReceiveContext& ctx, const Arrival& arrival) noexcept;
void on_welcome(ReceiveContext& ctx, Peer& peer, const Arrival& arrival) noexcept;
// A packet that does not name our incarnation for its sender. The peer, if it is known now.
Peer* introduce(ReceiveContext& ctx, Peer* peer, const Arrival& arrival) noexcept;

// replies.cpp
void queue_refusal(ReceiveContext& ctx, const Arrival& arrival, wire::SrdReason reason) noexcept;
// `perhaps_executed`: the incarnation that it names was ours, and was ended.
void queue_reset(ReceiveContext& ctx, const Arrival& arrival, bool perhaps_executed) noexcept;
// `answer` is about the packet that arrived.
void queue_reply(ReceiveContext& ctx, const Arrival& arrival, wire::SrdPacket answer) noexcept;
void queue_reply(ReceiveContext& ctx, const Reply& reply) noexcept;
void send_replies(ReceiveContext& ctx) noexcept;

// peers.cpp
// Null: as many as may be, and all in use; or there is no memory.
Peer* add_peer(ReceiveContext& ctx, const Gid& address, uint32_t qpn_prefix) noexcept;
// The peer is dead, by `sign` or because it was silent: messages fail, its stream is dropped.
void fail_peer(ReceiveContext& ctx, Peer& peer, Status status, transport::PeerSign sign) noexcept;

// rails.cpp
// Sets the peer that a packet comes from, if it is known, and its route. False: it belongs to none
// and gets no answer.
bool find_source_among_rails(ReceiveContext& ctx, Arrival& arrival) noexcept;
inline bool find_source(ReceiveContext& ctx, Arrival& arrival) noexcept {
  if (ctx.uses_rails) return find_source_among_rails(ctx, arrival);
  arrival.peer = ctx.peers.find(arrival.frame.path->source, arrival.packet.source.value >> 16);
  return true;
}
void erase_aliases(ReceiveContext& ctx, const Peer& peer) noexcept;
// Our further addresses, to a sender that may not know them.
void announce_addresses(ReceiveContext& ctx, Peer& peer) noexcept;
void on_rails(ReceiveContext& ctx, const Frame& frame, const wire::SrdPacket& p,
              Instant now) noexcept;

// trim.cpp: a switch cut the frame to its headers
void receive_trimmed(ReceiveContext& ctx, const Frame& frame, Instant now) noexcept;

// execute.cpp, execute_send.cpp, execute_add.cpp: what a fresh packet requests; `why` is the reason
// of a refusal
Outcome execute(ReceiveContext& ctx, Peer& peer, const Arrival& a, wire::SrdReason& why) noexcept;
Outcome execute_send(ReceiveContext& ctx, Peer& peer, QueuePair& qp, const Arrival& a,
                     wire::SrdReason& why) noexcept;
Outcome execute_write(ReceiveContext& ctx, Peer& peer, QueuePair& qp, const Arrival& a,
                      wire::SrdReason& why) noexcept;
Outcome execute_add(ReceiveContext& ctx, QueuePair& qp, const Arrival& a,
                    wire::SrdReason& why) noexcept;
// The receive of an incomplete message goes back to the head of its queue.
void return_receive(ReceiveContext& ctx, Assembly& assembly) noexcept;
// False: the peer has no such incomplete message.
bool discard_assembly(ReceiveContext& ctx, Peer& peer, uint32_t message) noexcept;

// payload.cpp
// The part of the payload at `offset` to `to`, from the port's buffer or the sender's memory.
Outcome copy_payload(ReceiveContext& ctx, std::byte* to, const Arrival& a, uint32_t offset,
                     uint32_t length, wire::SrdReason& why) noexcept;
// The payload to byte `offset` of a scatter list.
Outcome place_payload(ReceiveContext& ctx, const Sge* sges, uint32_t entries, uint32_t domain,
                      uint32_t offset, const Arrival& a, wire::SrdReason& why) noexcept;

// order.cpp: SENDs that are received in order
// A new message may take a receive now. Otherwise `why`, and its peer may wait in the RNR queue.
bool may_bind(ReceiveContext& ctx, Peer& peer, QueuePair& qp, const wire::SrdPacket& p,
              wire::SrdReason& why) noexcept;
void hold_completion(ReceiveContext& ctx, Peer& peer, uint32_t number, const Completion& completion,
                     bool solicited) noexcept;
// An abort of an ordered message: it will come again, or never.
Outcome skip_order(ReceiveContext& ctx, Peer& peer, const wire::SrdPacket& abort) noexcept;
// The queue pair is reset: its held completions are dropped, or say that they were flushed.
void drop_held_completions(ReceiveContext& ctx, QueuePair& qp, bool flush) noexcept;
void end_ordered_receives(ReceiveContext& ctx, Receiver& rx) noexcept;

// credit.cpp
bool exceeds_credit(ReceiveContext& ctx, Receiver& rx, const wire::SrdPacket& packet) noexcept;
void on_credit_request(ReceiveContext& ctx, Peer& peer, const wire::SrdPacket& packet,
                       Instant now) noexcept;
void grant_credit(ReceiveContext& ctx, Instant now) noexcept;
void end_credit(ReceiveContext& ctx, Receiver& rx) noexcept;

// acks.cpp
// An acknowledgement leaves with the next transmit(), or after the application's response.
void queue_ack(ReceiveContext& ctx, Peer& peer, Instant now) noexcept;
// A packet was received: queues its acknowledgement, now or later.
void acknowledge_packet(ReceiveContext& ctx, Peer& peer, const Arrival& arrival,
                        bool duplicate) noexcept;
// Data for `peer` left in `frames` frames while an acknowledgement for it is queued.
void delay_ack_behind_data(ReceiveContext& ctx, Peer& peer, size_t frames) noexcept;
void send_acks(ReceiveContext& ctx, Instant now) noexcept;
void send_due_acks(ReceiveContext& ctx, Instant now) noexcept;

// rnr.cpp
// Receives that a new message of `peer` may take.
uint32_t available_receives(const Peer& peer, const QueuePair& qp) noexcept;
// The message finds no receive: no_receive if its peer is queued, else busy.
wire::SrdReason join_rnr_queue(const Peer& peer, QueuePair& qp) noexcept;
// A message of `peer` took a receive. `more`: its sender has others that wait for one.
void on_receive_taken(ReceiveContext& ctx, const Peer& peer, QueuePair& qp, bool more) noexcept;
// There may be a receive for a waiting peer: the next transmit() looks.
void schedule_ready(ReceiveContext& ctx, QueuePair& qp) noexcept;
void send_ready_packets(ReceiveContext& ctx, Instant now) noexcept;
void expire_reservations(ReceiveContext& ctx, Instant now) noexcept;
void end_rnr_queue(ReceiveContext& ctx, QueuePair& qp) noexcept;

}  // namespace weft::srd
