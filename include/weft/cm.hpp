// SPDX-License-Identifier: BSD-3-Clause
// The RDMA connection manager: queue pairs are connected by management datagrams to queue pair 1 of
// the peer's address, as rdma_cm does it; its programs (rping and the like) and weft's understand
// each other. connect.hpp is simpler where both sides are weft and TCP is there.
//
// A CmChannel belongs to a device and brings events; a CmId is one connection, or one port that is
// listened on. Server:                          Client:
//
//   listener = *channel.create_id();              id = *channel.create_id();
//   listener.listen(7174);                        id.resolve_address("10.0.0.1:7174");
//   event = channel.wait();  // connect_request   channel.wait();  // address_resolved
//   event->id.accept(qp, {});                     id.resolve_route();
//   channel.wait();          // established       channel.wait();  // route_resolved
//                                                 id.connect(qp, {});
//                                                 channel.wait();  // established
//
// Datagrams (UD) are not connected: a client asks which queue pair serves a port, with
// CmService::datagrams, and gets its address and Q_Key.
//
//   listener = *channel.create_id(CmService::datagrams);    id = the same, and its ways as above
//   listener.listen(7174);                                  id.find_service();
//   event->id.accept(ud_qp, {});                            event = channel.wait();  // established
//                                                           event->service is where to send
//
// Ports are those of RDMA_PS_TCP, and of RDMA_PS_UDP for datagrams. Private data has a fixed length
// on the wire: who receives it sees the sender's bytes and zeros behind them.
//
// Providers: roce over any port; on an address that several processes share, the first of them
// only. ibverbs by librdmacm, loaded when the first channel is made, and the kernel's rdma_cm,
// which decides path MTU and PSNs and waits longer for a peer that is silent (a minute). Others
// answer not_supported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/device.hpp"
#include "weft/qp.hpp"
#include "weft/result.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft {

namespace verbs {
class CmChannel;
class CmId;
}  // namespace verbs

enum class CmEventType : uint8_t {
  address_resolved,
  route_resolved,
  connect_request,  // `id` is new: accept() or reject() it; letting go of it rejects
  established,      // the queue pair is in RTS, and so is (or soon will be) the peer's
  rejected,         // by the peer: `reason` and private data say why
  unreachable,      // the peer did not answer in time, or a flood of requests pushed this one out
  connect_error,    // our queue pair could not be made ready: `error` says why
  disconnected,     // by either side; the queue pair is in ERR
};
std::string_view name(CmEventType type) noexcept;

// What a port stands for. Both have ports of their own.
enum class CmService : uint8_t {
  connections,  // of RC and UC queue pairs
  datagrams,    // to a UD queue pair
};

// What a side says of itself in connect() and accept(), and in the event what the peer said.
struct CmParameters {
  std::vector<std::byte> private_data;  // connect(): <= 56 bytes, accept(): <= 196
  uint8_t responder_resources = 16;     // READs and atomics that the peer may have outstanding here
  uint8_t initiator_depth = 16;         // that we may have there; lowered to what the peer offers
  uint8_t rnr_retry = 7;                // 0..7, 7 = for ever: how often the peer repeats after RNR
  // connect() only; the acceptor learns them.
  uint8_t retry_count = 7;
  uint8_t timeout = 14;   // 4.096 us * 2^14 = 67 ms until a packet is sent again
  uint32_t path_mtu = 0;  // 0: the device's active_mtu, at most 4096; ibverbs: 0 or the route's
  uint8_t traffic_class = 0;
  // Our own; rq_psn is said too.
  Access access = Access::all;  // what the peer may do through this queue pair
  uint8_t min_rnr_timer = 12;   // 0.64 ms
  std::optional<Psn> rq_psn;    // the first of the peer's packets; unset: random; not on ibverbs
};

// Reasons of CmEventType::rejected that programs look at (IBTA 12.6.7.2).
inline constexpr uint16_t kCmNobodyListens = 8;
inline constexpr uint16_t kCmStale = 10;     // of an earlier life of this address: try again
inline constexpr uint16_t kCmConsumer = 28;  // reject() was called

// The Q_Key of a UD queue pair that serves a port by rdma_cm: ibverbs can name no other.
inline constexpr uint32_t kCmQkey = 0x01234567;

// Where datagrams to a service go: SendRequest::to (an AddressHandle of `path`), remote_qpn and
// remote_qkey.
struct CmDatagramService {
  AddressVector path;
  QpNum qpn;
  uint32_t qkey = 0;
};

struct CmEvent;

// Copies name the same connection; when the last is gone it is ended: disconnected, or rejected.
class CmId {
 public:
  CmId() = default;
  explicit CmId(std::shared_ptr<verbs::CmId> impl) : impl_(std::move(impl)) {}
  explicit operator bool() const noexcept { return impl_ != nullptr; }
  bool operator==(const CmId&) const = default;

  // "10.0.0.1:7174", "[fd77::2]:7174" or "host:7174"; a name that needs DNS blocks. The event
  // address_resolved follows. Errors: invalid_argument, not_found (also where the host has no
  // address of the device's family), bad_state.
  Result<void> resolve_address(std::string_view address) const;
  // Over Ethernet the way is the routing table's: there is nothing to ask. route_resolved follows.
  Result<void> resolve_route() const;

  // Listens on a port of the device's address, 0: a free one. Errors: address_in_use, bad_state.
  Result<void> listen(uint16_t port) const;

  // Asks for a connection of `qp` (RC or UC, in RESET or INIT; receives may be posted before in
  // INIT). Ends in established, rejected, unreachable or connect_error. Errors: invalid_argument,
  // bad_state (not resolved; another state), not_supported (ibverbs: UC, path_mtu), no_memory.
  Result<void> connect(const QueuePair& qp, const CmParameters& parameters = {}) const;
  // Asks which UD queue pair serves the resolved port; at most 180 bytes of private data. Ends in
  // established (CmEvent::service), rejected or unreachable. Nothing lasts: there is no end to
  // tell. Errors: invalid_argument, bad_state (not resolved, or an id for connections), no_memory.
  Result<void> find_service(std::span<const std::byte> private_data = {}) const;
  // Of a connect_request; the queue pair is in RTS when it returns. Ends in established or
  // unreachable. Errors as connect(), and bad_state if the peer has given up meanwhile.
  // Of one for datagrams: names a UD queue pair in RTR or RTS and its Q_Key (on ibverbs kCmQkey);
  // of `parameters` at most 136 bytes of private data count. Any number of requests may be answered
  // with the same one. No event follows.
  Result<void> accept(const QueuePair& qp, const CmParameters& parameters = {}) const;
  // Refuses a connect_request; at most 148 bytes of private data, 136 of one for datagrams.
  Result<void> reject(std::span<const std::byte> private_data = {}) const;
  // Moves the queue pair to ERR and tells the peer; disconnected follows, at the latest when the
  // peer has not answered for 4.3 s. Nothing if it is over already. Error: bad_state.
  Result<void> disconnect() const;

  uint16_t port() const noexcept;       // that is listened on, or our own
  Gid peer_gid() const noexcept;        // after address_resolved or connect_request
  uint16_t peer_port() const noexcept;  // the same
  QpNum peer_qpn() const noexcept;      // the same or established; of who asks for a service: 0
  uint32_t path_mtu() const noexcept;   // the same
  QueuePair qp() const;

  const std::shared_ptr<verbs::CmId>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<verbs::CmId> impl_;
};

struct CmEvent {
  CmEventType type = CmEventType::disconnected;
  CmId id;
  CmId listener;        // of a connect_request
  uint16_t reason = 0;  // of rejected
  CmParameters peer;    // of connect_request and established; of rejected: its private data
  std::optional<CmDatagramService> service;  // of established, where find_service() asked
  std::optional<Error> error;                // of rejected, unreachable and connect_error
};

// Where the events of some connections arrive. Taking events makes progress: a connection that was
// asked for stands still while nobody calls next() or wait().
class CmChannel {
 public:
  CmChannel() = default;
  // Errors: not_supported (the device has no connection manager), address_in_use (another process
  // on the same address has it), not_found (ibverbs: no librdmacm, or the kernel's part of it is
  // missing), permission_denied, no_memory.
  static Result<CmChannel> create(const Device& device);
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  // Errors: not_supported (no datagrams on this device), permission_denied (forked), no_memory.
  Result<CmId> create_id(CmService service = CmService::connections) const;

  // Readable while an event waits. Owned by the channel.
  int fd() const noexcept;
  // The next event, if there is one. Never blocks.
  std::optional<CmEvent> next() const;
  // Blocks until there is one, at most `limit`.
  std::optional<CmEvent> wait(Duration limit = Duration::from_s(1'000'000)) const;

  const std::shared_ptr<verbs::CmChannel>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<verbs::CmChannel> impl_;
};

}  // namespace weft
