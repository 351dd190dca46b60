// SPDX-License-Identifier: BSD-3-Clause
// The connection manager (CM) of one port, without I/O (IBTA chapter 12): time, randomness and
// datagrams are arguments. It exchanges MADs with the CMs at queue pair 1 of other ports, repeats
// what is not answered, and raises events in inboxes. The application owns the queue pairs and
// modifies them: before accept() and before confirm().
//
// The network cannot make it grow without bound: half-open connections are at most `max_half_open`,
// a new one evicts the oldest (//= threat:A17), and responses to unauthenticated senders keep no
// state. A MAD for which there is no memory is dropped and repeated by the peer; a call of the
// application for which there is none throws std::bad_alloc and has no effect. //= threat:A28
#pragma once

#include "lib/roce/cm/agent_state.hpp"

namespace weft::cm {

class Agent final : public roce::GeneralServices {
 public:
  Agent(const AgentConfig& config, base::SecureRandom& random);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // The network side.
  void on_datagram(std::span<const std::byte> bytes, const Gid& from,
                   Instant now) noexcept override;
  // The first request on a queue pair implies the RTU, which may have been lost. //= roce:C-CM-106
  void on_first_request(QpNum number, const Gid& peer, QpNum peer_number,
                        Instant now) noexcept override;
  const roce::ManagementDatagram* next_datagram() noexcept override { return state_.outbox.pop(); }
  bool wants_transmit() const noexcept override { return !state_.outbox.empty(); }
  void expire(Instant now) noexcept override;
  Instant next_deadline() const noexcept override { return state_.wheel.next_deadline(); }

  // The application's side. `inbox` outlives its connections and services. Errors: address_in_use,
  // no_memory, bad_state (the state of the connection changed meanwhile), invalid_argument.
  Result<void> listen(uint64_t service_id, Inbox& inbox);
  // Requests for the service are dropped for a moment, those that were not accepted or rejected
  // yet too (closed_services.hpp).
  void stop_listening(uint64_t service_id, Instant now) noexcept;
  Result<uint32_t> connect(const Gid& peer, uint64_t service_id, const Offer& offer, Inbox& inbox,
                           Instant now);
  // Events of a passive connection are added to the inbox of its service until this call. What
  // waits in the old inbox moves, too; `inbox` is not woken.
  void move(uint32_t id, Inbox& inbox);
  // The same for a service that is listened on, and its requests that the application has not
  // taken.
  void move_service(uint64_t service_id, Inbox& inbox);
  Result<void> accept(uint32_t id, const Offer& offer, Instant now);
  // Resolves the queue pair of a datagram service (SIDR); ends in served, rejected or unreachable.
  Result<uint32_t> find_service(const Gid& peer, uint64_t service_id, uint16_t source_port,
                                std::span<const std::byte> data, Inbox& inbox, Instant now);
  // Answers a SIDR request. No event follows.
  Result<void> serve(uint32_t id, QpNum qpn, uint32_t qkey, std::span<const std::byte> data,
                     Instant now);
  Result<void> reject(uint32_t id, Reason reason, std::span<const std::byte> data, Instant now);
  Result<void> confirm(uint32_t id, Instant now);
  Result<void> disconnect(uint32_t id, Instant now);
  // The application releases the id: no event follows. The peer gets a REJ or DREQ, as it fits.
  void release(uint32_t id, Instant now) noexcept;
  // Takes the next event of an inbox. False: there is none.
  bool next(Inbox& inbox, Event& event) noexcept;

  size_t connections() const noexcept { return state_.table.size(); }
  uint64_t count(AgentCount c) const noexcept { return state_.counts[static_cast<size_t>(c)]; }
  // Asserts the invariants of all connections. Builds with dense checks; no effect in others.
  void check_invariants() const noexcept { check_agent(state_); }

 private:
  Result<Connection*> in_state(uint32_t id, State state, const char* call) const;

  AgentState state_;
};

}  // namespace weft::cm
