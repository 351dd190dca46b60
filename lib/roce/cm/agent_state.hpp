// SPDX-License-Identifier: BSD-3-Clause
// The state of an agent, and the steps that its handlers have in common: MADs to send, events,
// timers, the end of connections. The handlers of received MADs (receive.cpp, sidr.cpp) and of
// timers are functions over (AgentState, Connection, ...); the Agent joins them.
//
// Functions that may throw std::bad_alloc have changed nothing when they do.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string_view>

#include "lib/base/random.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/roce/cm/closed_services.hpp"
#include "lib/roce/cm/connection_table.hpp"
#include "lib/roce/cm/mad_builder.hpp"
#include "lib/roce/cm/outbox.hpp"
#include "lib/roce/cm/request_limit.hpp"
#include "weft/result.hpp"

namespace weft::cm {

struct AgentConfig {
  Gid address;
  Instant start;
  // Time between retransmissions: 4.096 us * 2^16 is 268 ms. Sent to the peer in REQ, too.
  uint8_t response_timeout = 16;
  uint8_t retries = 15;
  // Service timeout in an MRA, while our application decides: 17 s.
  uint8_t service_timeout = 22;
  uint32_t max_half_open = 512;
  uint32_t max_requests = 256;  // outstanding to one peer
  uint32_t max_connections = 65536;
  // The upper 8 bits of all ids, where several agents share an address; 0: ids are 32 random bits.
  uint8_t slot = 0;
};

enum class AgentCount : uint8_t {
  received,
  sent,
  repeated,
  malformed,        // no MAD of this class
  unknown_id,       // names no connection of ours
  wrong_source,     // names one, and is not from its peer
  duplicates,       // arrived before
  unexpected,       // invalid in the state of the connection
  refused,          // REJ sent: no listener, or stale
  deferred,         // the listener closed a moment ago: the peer repeats its request
  stale,            // a connection whose peer restarted
  evicted,          // half-open, for a newer one
  expired,          // no response
  answers_dropped,  // too many queued, or no memory for them
  no_memory,        // received and dropped: the peer repeats it
  end_
};
std::string_view name(AgentCount count) noexcept;

struct AgentState {
  AgentState(const AgentConfig& config, base::SecureRandom& random)
      : config(config), random(random), wheel(config.start), requests(config.max_requests) {}

  const AgentConfig config;
  base::SecureRandom& random;
  base::TimerWheel wheel;
  ConnectionTable table;
  std::map<uint64_t, Inbox*> services;
  ClosedServices closed_services;
  RequestLimit requests;
  Outbox outbox;
  std::array<uint64_t, static_cast<size_t>(AgentCount::end_)> counts{};

  void count(AgentCount c) noexcept { ++counts[static_cast<size_t>(c)]; }
};

// No one listens for the service, but someone did a moment ago.
inline bool is_between_listeners(const AgentState& agent, uint64_t service, Instant now) noexcept {
  return !agent.services.contains(service) && agent.closed_services.contains(service, now);
}

// agent_state.cpp: MADs.
void send(AgentState& agent, const Gid& to, const Mad& mad) noexcept;
void send_response(AgentState& agent, const Gid& to, const Mad& mad) noexcept;
void send_rej(AgentState& agent, const Gid& to, const Mad& mad, uint32_t peer_id, Answered what,
              Reason reason);
// Sends `mad` and repeats it up to `retries` times. May throw.
void send_repeated(AgentState& agent, Connection& c, const Mad& mad, uint8_t timeout,
                   uint8_t retries, Instant now);
// The same for a REQ or SIDR_REQ, which RequestLimit may queue. May throw.
void send_request(AgentState& agent, Connection& c, const Mad& request, Instant now);
// The request of `c` is answered or abandoned: sends the next queued one.
void finish_request(AgentState& agent, Connection& c, Instant now) noexcept;
// Repeated from the connection's fields: ending needs no memory.
void send_dreq(AgentState& agent, Connection& c, Instant now) noexcept;

// Connections. May throw.
Connection& create_connection(AgentState& agent, State state, const Gid& peer);
void destroy(AgentState& agent, Connection& c) noexcept;
void arm(AgentState& agent, Connection& c, Instant deadline) noexcept;
// Makes room for a half-open connection: ends the oldest ones. //= threat:A17
void evict_half_open(AgentState& agent);
void raise_event(Connection& c, EventKind kind) noexcept;
// Raises the last event of a connection. One that the application does not know is destroyed.
void end(AgentState& agent, Connection& c, EventKind kind, Instant now) noexcept;
void enter_timewait(AgentState& agent, Connection& c, Instant now) noexcept;
// The peer restarted: ends the old connection with one DREQ. //= roce:C-CM-108
void abandon(AgentState& agent, Connection& c, Instant now) noexcept;
// The timer of `c` expired. May throw.
void on_timer(AgentState& agent, Connection& c, Instant now);

// receive.cpp: a valid MAD from `from`. May throw.
void on_mad(AgentState& agent, const Mad& mad, const Gid& from, Instant now);
void on_rtu(AgentState& agent, Connection& c) noexcept;
// sidr.cpp
void on_sidr_req(AgentState& agent, const Mad& mad, const Gid& from, Instant now);
void on_sidr_rep(AgentState& agent, const Mad& mad, const Gid& from, Instant now);
// Sends the SIDR_REP of the application and keeps it for repeated requests, memory permitting.
void send_sidr_rep(AgentState& agent, Connection& c, const SidrRep& rep, Instant now);

// Asserts the invariant of one connection, and of the agent. Builds with dense checks; no effect in
// others.
void check_connection(const AgentState& agent, const Connection& c) noexcept;
void check_agent(const AgentState& agent) noexcept;

}  // namespace weft::cm
