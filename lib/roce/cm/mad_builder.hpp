// SPDX-License-Identifier: BSD-3-Clause
// Builds each kind of MAD from a connection. `local`: the address of the port, which stands for its
// GUID, too.
#pragma once

#include <span>

#include "lib/roce/cm/connection.hpp"
#include "lib/roce/cm/enhanced.hpp"
#include "lib/roce/cm/ip_addressing.hpp"

namespace weft::cm {

// Attributes of one side's queue pair in a REQ or REP.
struct Offer {
  QpNum qpn;
  Psn psn;                          // of the first packet that this side expects
  uint8_t responder_resources = 0;  // READs and atomics that the peer may have outstanding
  uint8_t initiator_depth = 0;      // that this side will have outstanding
  uint8_t rnr_retry = 7;
  bool shared_receives = false;
  Ece ece;
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

// Timeouts of the agent, as exponents: 4.096 us * 2^n.
struct MadTimeouts {
  uint8_t response_timeout;
  uint8_t retries;
};

Mad make_req(const Connection& c, const Offer& offer, const Gid& local, const MadTimeouts& times);
Mad make_rep(const Connection& c, const Offer& offer, const Gid& local);
Mad make_rej(const Connection& c, Answered what, Reason reason, const Gid& local,
             std::span<const std::byte> data = {});
// A REJ to a peer without a connection, in reply to `mad`.
Mad make_rej(const Mad& mad, uint32_t peer_id, Answered what, Reason reason);
Mad make_mra(const Connection& c, Answered what, uint8_t service_timeout);
Mad make_rtu(const Connection& c);
Mad make_dreq(const Connection& c);
Mad make_drep(uint64_t transaction, uint32_t local_id, uint32_t remote_id);
// Refuses an alternate path: there is no path migration.
Mad make_apr(const Connection& c, uint64_t transaction);
Mad make_sidr_req(const Connection& c, const Gid& local, uint16_t source_port,
                  std::span<const std::byte> data);

}  // namespace weft::cm
