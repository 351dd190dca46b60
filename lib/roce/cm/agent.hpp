// SPDX-License-Identifier: BSD-3-Clause
// The connection manager of one port, without I/O (IBTA chapter 12): time, randomness and datagrams
// are arguments. It speaks with its like at queue pair 1 of other ports, repeats what is not
// answered, and tells the application through inboxes. The application owns the queue pairs and
// moves them: before accept() and before confirm().
//
// Nothing that comes from the network makes it grow without bound: half-open connections are at
// most `max_half_open`, a new one takes the place of the oldest (//= threat:A17), and answers to
// strangers keep no state. What it has no memory for it has not heard: that comes again. What the
// application asks for has not happened when there was no memory (std::bad_alloc).
// //= threat:A28
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

#include "lib/base/random.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/roce/cm/connection.hpp"
#include "lib/roce/cm/ip_addressing.hpp"
#include "lib/roce/cm/questions.hpp"
#include "lib/roce/state/general_services.hpp"
#include "weft/result.hpp"

namespace weft::cm {

struct AgentConfig {
  Gid address;
  Instant start;
  // Before something is repeated: 4.096 us * 2^16 is 268 ms. The other side learns it too.
  uint8_t response_timeout = 16;
  uint8_t retries = 15;
  // How much longer a peer waits that asks again while our application thinks: 17 s.
  uint8_t patience = 22;
  uint32_t max_half_open = 512;
  uint32_t questions_at_once = 256;  // of one peer
  uint32_t max_connections = 65536;
};

// What one side says of its queue pair in REQ or REP.
struct Offer {
  QpNum qpn;
  Psn psn;                          // of the first packet that this side wants to get
  uint8_t responder_resources = 0;  // READs and atomics that the other side may have outstanding
  uint8_t initiator_depth = 0;      // that this side will have outstanding
  uint8_t rnr_retry = 7;
  bool shared_receives = false;
  // REQ only.
  Transport transport = Transport::rc;
  uint32_t path_mtu = 1024;
  uint8_t retry_count = 7;
  uint8_t ack_timeout = 14;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint16_t source_port = 0;  // of the IP header in the private data
  std::span<const std::byte> private_data;
};

enum class AgentCount : uint8_t {
  received,
  sent,
  repeated,
  malformed,        // no datagram of this class
  strangers,        // names no connection of ours
  wrong_source,     // names one, and is not from its other side
  duplicates,       // was here before
  unexpected,       // does not fit the state
  refused,          // REJ sent: nobody listens, or stale
  stale,            // a live connection whose other side has started anew
  evicted,          // half-open, for a newer one
  expired,          // nobody answered
  answers_dropped,  // too many to send at once, or no memory for them
  no_memory,        // heard and not kept: whoever said it says it again
  end_
};
std::string_view name(AgentCount count) noexcept;

class Agent final : public roce::GeneralServices {
 public:
  Agent(const AgentConfig& config, base::SecureRandom& random);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // The network side.
  void on_datagram(std::span<const std::byte> bytes, const Gid& from,
                   Instant now) noexcept override;
  void on_first_request(QpNum number, const Gid& peer, QpNum peer_number,
                        Instant now) noexcept override;
  const roce::ManagementDatagram* next_datagram() noexcept override;
  bool wants_transmit() const noexcept override { return !outbox_.empty(); }
  void expire(Instant now) noexcept override;
  Instant next_deadline() const noexcept override { return wheel_.next_deadline(); }

  // The application's side. `inbox` outlives its connections and services. Errors: address_in_use,
  // no_memory, bad_state (the connection has gone another way meanwhile), invalid_argument.
  Result<void> listen(uint64_t service_id, Inbox& inbox);
  void stop_listening(uint64_t service_id);
  Result<uint32_t> connect(const Gid& peer, uint64_t service_id, const Offer& offer, Inbox& inbox,
                           Instant now);
  // Events of a connection that was asked for go to the inbox of its service until this.
  void move(uint32_t id, Inbox& inbox);
  Result<void> accept(uint32_t id, const Offer& offer, Instant now);
  // Asks for the queue pair that serves datagrams: ends in served, rejected or unreachable.
  Result<uint32_t> find_service(const Gid& peer, uint64_t service_id, uint16_t source_port,
                                std::span<const std::byte> data, Inbox& inbox, Instant now);
  // Of somebody who asks for one. All is said then: no event comes any more.
  Result<void> serve(uint32_t id, QpNum qpn, uint32_t qkey, std::span<const std::byte> data,
                     Instant now);
  Result<void> reject(uint32_t id, Reason reason, std::span<const std::byte> data, Instant now);
  Result<void> confirm(uint32_t id, Instant now);
  Result<void> disconnect(uint32_t id, Instant now);
  // The application lets go: what can be ended politely is, and no event comes any more.
  void release(uint32_t id, Instant now) noexcept;
  bool next(Inbox& inbox, Event& event) noexcept;

  size_t connections() const noexcept { return connections_.size(); }
  uint64_t count(AgentCount c) const noexcept { return counts_[static_cast<size_t>(c)]; }

 private:
  using PeerKey = std::pair<Gid, uint32_t>;

  // receive.cpp
  void on_req(const Mad& mad, const Gid& from, Instant now);
  bool on_known_req(const Mad& mad, const Gid& from, Instant now);
  bool ask_for_patience(Connection& c, Answered what, Instant now);
  void on_mra(Connection& c, const Mra& mra, Instant now);
  void on_rej(Connection& c, const Mad& mad, Instant now);
  void on_rep(Connection& c, const Mad& mad, Instant now);
  void on_mad(const Mad& mad, const Gid& from, Instant now);
  void on_rtu(Connection& c, Instant now);
  void on_dreq(const Mad& mad, const Gid& from, Instant now);
  void on_drep(Connection& c, Instant now);
  Connection* rejected(const Rej& rej, const Gid& from);
  Connection* addressee(uint32_t remote_id, uint32_t peer_id, const Gid& from);
  Reason reject_reason(const Req& req, const Gid& from) const noexcept;

  // sidr.cpp
  void on_sidr_req(const Mad& mad, const Gid& from, Instant now);
  void on_sidr_rep(const Mad& mad, const Gid& from, Instant now);
  void answer(Connection& c, const SidrRep& rep, Instant now);
  Result<void> refuse_service(Connection& c, std::span<const std::byte> data, Instant now);

  // agent.cpp
  Connection* create(State state, const Gid& peer);
  void adopt_peer(Connection& c, uint32_t peer_id, QpNum peer_qpn);
  void forget_peer(Connection& c) noexcept;
  void destroy(Connection& c) noexcept;
  void drop_half_open(Connection& c) noexcept;
  void evict_oldest();
  void raise_event(Connection& c, EventKind kind) noexcept;
  void end(Connection& c, EventKind kind, Instant now) noexcept;
  void enter_timewait(Connection& c, Instant now) noexcept;
  void arm(Connection& c, Instant deadline) noexcept;
  void on_timer(Connection& c, Instant now);
  void send_retried(Connection& c, const Mad& mad, uint8_t wait, uint8_t tries, Instant now);
  void send_question(Connection& c, const Mad& question, Instant now);
  void finish_question(Connection& c, Instant now) noexcept;
  Connection* find(uint32_t id) noexcept;
  Result<Connection*> in_state(uint32_t id, State state, const char* call);
  void add(AgentCount c) noexcept { ++counts_[static_cast<size_t>(c)]; }

  // speak.cpp
  Req request_of(const Connection& c, const Offer& offer) const;
  Rep reply_of(const Connection& c, const Offer& offer) const;
  Mad rejection(const Connection& c, Answered what, Reason reason,
                std::span<const std::byte> data = {}) const;
  Mad patience(const Connection& c, Answered what) const;
  Mad readiness(const Connection& c) const;
  Mad farewell(const Connection& c) const;
  void refuse(const Gid& to, const Mad& mad, uint32_t peer_id, Answered what, Reason reason);
  void send_dreq(Connection& c, Instant now) noexcept;
  void abandon(Connection& c, Instant now) noexcept;
  void send_drep(const Gid& to, uint64_t transaction, uint32_t local_id, uint32_t remote_id);
  void send(const Gid& to, const Mad& mad) noexcept;
  void send_answer(const Gid& to, const Mad& mad) noexcept;

  AgentConfig config_;
  base::SecureRandom& random_;
  base::TimerWheel wheel_;
  std::unordered_map<uint32_t, std::unique_ptr<Connection>> connections_;
  std::map<PeerKey, Connection*> by_peer_id_;   // by what the other side calls it
  std::map<PeerKey, Connection*> by_peer_qpn_;  // by the other side's queue pair
  std::map<PeerKey, Connection*> by_request_;   // SIDR: by the other side's name of its question
  std::map<uint64_t, Inbox*> services_;
  base::Line<Connection, &Connection::half_open>
      half_open_;  // those that send_question us, oldest first
  uint32_t half_opens_ = 0;
  Questions questions_;
  std::deque<roce::ManagementDatagram> outbox_;
  roce::ManagementDatagram leaving_;
  uint64_t counts_[static_cast<size_t>(AgentCount::end_)] = {};
};

}  // namespace weft::cm
