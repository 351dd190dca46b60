// SPDX-License-Identifier: BSD-3-Clause
// The sending half of the SRD engine: free functions over SendContext and the peer whose stream
// they serve. Each file is one step; this page lists what they offer to the rest. Nothing here
// touches what is received.
#pragma once

#include <optional>

#include "lib/srd/state/context.hpp"
#include "lib/transport/host_queue.hpp"

namespace weft::srd {

struct SendContext : Context {
  SendContext(Port& port, const Config& config, base::SecureRandom& random);

  MessagePool messages;
  FlightPool flights;
  uint32_t flights_in_use = 0;
  std::optional<HostQueue> own_queue;  // if the controller uses digests
  const FlowRules flow_rules;
};

// send.cpp
// Sends packets of `peer` while there is room, a quantum is left, and the flow is open.
void send_to_peer(SendContext& ctx, Peer& peer, Instant now) noexcept;
// Makes sure that `peer` has a stream and a flight. False: there is no memory; the timer is armed.
bool begin_flight(SendContext& ctx, Peer& peer, Instant now) noexcept;
// Everything is acknowledged: gives memory back if many peers have flights.
void end_flight(SendContext& ctx, Peer& peer) noexcept;
// Drops all records and what is known of the paths.
void drop_flight(SendContext& ctx, Peer& peer) noexcept;
// Lists a new message of `m.peer` and queues it.
void add_message(SendContext& ctx, Message& m) noexcept;

// build_packet.cpp
// Builds the packet of a record. False: memory of the message cannot be read.
bool build_packet(SendContext& ctx, Peer& peer, Record& r, uint64_t sequence) noexcept;

// acknowledge.cpp
void on_acknowledge(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept;
// Packet `sequence` was executed, in whichever transmission. `well`: without an ECN mark, and the
// path policy does not know yet.
void on_packet_acked(SendContext& ctx, Peer& peer, uint64_t sequence, bool well) noexcept;
// Moves una past acknowledged packets.
void advance_una(Sender& tx) noexcept;

// loss.cpp
// When a packet counts as lost because a later one has overtaken it; never(): none has by enough.
Instant overtaken_at(const Sender& tx, const Record& r) noexcept;
// Sequence gaps on a path, and packets that were overtaken.
void detect_losses(SendContext& ctx, Peer& peer, Instant now) noexcept;
// An in-flight packet becomes one to be retransmitted. The first form also tells the flow.
void mark_lost(SendContext& ctx, Peer& peer, uint64_t sequence, congestion::Loss loss) noexcept;
void mark_lost(SendContext& ctx, Peer& peer, uint64_t sequence) noexcept;
// A switch trimmed a packet, says the receiver.
void on_trimmed(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept;

// send_timer.cpp
enum class TimerVerdict : uint8_t { ok, peer_dead };
// The timer of `peer` fired: RNR waits, RTO, tail probe, liveness probe.
TimerVerdict on_send_timer(SendContext& ctx, Peer& peer, Instant now) noexcept;
void rearm_timer(SendContext& ctx, Peer& peer, Instant now) noexcept;
// The peer has the request but may have lost the response: probe it later.
void schedule_liveness_probe(SendContext& ctx, Peer& peer, Instant now) noexcept;

// refusal.cpp: the receiver has refused a packet or had no receive
void on_refusal(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept;
// The peer has a receive for this endpoint.
void on_ready(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept;
// Resumes messages in rnr_wait whose time has come.
void resume_rnr_waiters(SendContext& ctx, Peer& peer, Instant now) noexcept;
// The peer has other messages in rnr_wait for the queue pair that `m` goes to.
bool has_other_rnr_waiter(const Message& m) noexcept;

// message_end.cpp
// Ends a message early: its packets that are not acknowledged are retransmitted as fills.
void cancel_message(SendContext& ctx, Message& m) noexcept;
// All packets of the message are acknowledged.
void on_all_acked(SendContext& ctx, Message& m) noexcept;
// Completes and releases the message, or lets it wait to be sent again.
void finish_message(SendContext& ctx, Message& m) noexcept;
void complete_request(SendContext& ctx, Message& m, Status status) noexcept;
// The queue pair goes to ERR or is destroyed; the message ends without it.
void detach_message(SendContext& ctx, Message& m) noexcept;
void release_message(SendContext& ctx, Message& m) noexcept;

// liveness.cpp
// The peer does not answer: the port finds out whether a process has its UDP port.
void ask_for_peer(SendContext& ctx, const Peer& peer) noexcept;
// It was silent for the dead peer timeout. True: it is stopped, so only time has passed.
bool is_stopped(SendContext& ctx, Peer& peer, Instant now) noexcept;

// hello.cpp
// The peer's incarnation for us is not known: asks for it, if it is time.
void send_hello(SendContext& ctx, Peer& peer, Instant now) noexcept;
// An answer to our stream names what only its receiver and we know. //= threat:A08
inline bool names_incarnation(const Sender& tx, const wire::SrdPacket& p) noexcept {
  return p.incarnation == tx.incarnation() && p.incarnation != 0;
}

// stream.cpp
// The peer's process is dead: what was sent in part goes again, or fails.
void lose_process(SendContext& ctx, Peer& peer) noexcept;
void on_reset(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept;
// Replaces a stream that was idle for so long that the peer may soon forget it.
void renew_stream(SendContext& ctx, Peer& peer, Instant now) noexcept;
// The peer is dead: all its messages complete with `status`.
void fail_messages(SendContext& ctx, Peer& peer, Status status, transport::PeerSign sign) noexcept;

// routes.cpp
// Requests routes that have not joined, at growing intervals.
void request_routes(SendContext& ctx, Peer& peer, Instant now) noexcept;
// False: there is no memory.
bool ensure_rails(Context& ctx, Peer& peer, Instant now) noexcept;
// A new stream begins, perhaps to another process: routes are requested again.
void restart_routes(Context& ctx, Peer& peer) noexcept;
// `p` has epoch, incarnation, destination and path.
void send_rails_packet(Context& ctx, wire::SrdPacket p, const Destination& to, uint32_t challenge,
                       bool is_response) noexcept;

}  // namespace weft::srd
