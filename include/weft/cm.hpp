// SPDX-License-Identifier: BSD-3-Clause
// The RDMA connection manager (CM): queue pairs are connected by management datagrams to queue pair
// 1 of the peer's address, interoperable with librdmacm and its programs such as rping. connect.hpp
// is simpler where both sides are weft and TCP is available.
//
// A CmChannel belongs to a device and delivers events (rdma_event_channel); a CmId is a connection
// or a listener (rdma_cm_id). Server:           Client:
//
//   listener = *channel.create_id();              id = *channel.create_id();
//   listener.listen(7174);                        id.resolve_address("10.0.0.1:7174");
//   event = channel.wait();  // connect_request   channel.wait();  // address_resolved
//   event->id.accept(qp, {});                     id.resolve_route();
//   channel.wait();          // established       channel.wait();  // route_resolved
//                                                 id.connect(qp, {});
//                                                 channel.wait();  // established
//
// Datagrams (UD) are not connected: with CmService::datagrams a client asks which queue pair serves
// a port, and gets its address, number and Q_Key (SIDR).
//
//   listener = *channel.create_id(CmService::datagrams);    id = the same, resolved as above
//   listener.listen(7174);                                  id.find_service();
//   event->id.accept(ud_qp, {});                            event = channel.wait();  // established
//                                                           // event->service: the destination
//
// A program that moves its queue pair itself (verbs: rdma_init_qp_attr) gives connect() and
// accept() a CmQueuePair, and modifies the queue pair with the attributes that attributes()
// returns: INIT, RTR and RTS before accept(); at the other side when connect_response arrives, then
// establish().
//
// Ports are those of RDMA_PS_TCP, and of RDMA_PS_UDP for datagrams. Private data has a fixed length
// on the wire: the receiver gets the sender's bytes, padded with zeros.
//
// Providers: roce over any port. Devices that share an address, in one process or in several, have
// its ports in common, and each receives what is for its own listeners and connections.
// ibverbs through librdmacm, which is loaded with the first channel, and the kernel's rdma_cm,
// which chooses path MTU and PSNs and has a longer timeout for a silent peer (a minute). Others:
// not_supported.
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

class CmChannel;

// Types of events (verbs: rdma_cm_event_type).
enum class CmEventType : uint8_t {
  address_resolved,  // after resolve_address()
  route_resolved,    // after resolve_route()
  connect_request,   // `id` is new: accept() or reject() it; destroying its last copy rejects it
  connect_response,  // to connect() with a CmQueuePair: move the queue pair to RTS, establish()
  established,       // the queue pair is in RTS; the peer's is in RTS, or will be soon
  rejected,          // by the peer: see `reason` and private data
  unreachable,    // the peer did not answer in time, or too many pending requests evicted this one
  connect_error,  // our queue pair could not be moved to RTS: see `error`
  disconnected,   // by either side; the queue pair is in ERR
};
// The name as spelled above.
std::string_view name(CmEventType type) noexcept;

// Port spaces.
enum class CmService : uint8_t {
  connections,  // RDMA_PS_TCP: RC and UC queue pairs
  datagrams,    // RDMA_PS_UDP: UD queue pairs
};

// The Q_Key of UD queue pairs that serve a port (RDMA_UDP_QKEY); on ibverbs the only one possible.
inline constexpr uint32_t kCmQkey = 0x01234567;

// A queue pair that the program moves itself, or that of the peer in an event.
struct CmQueuePair {
  QpNum number{};
  QpType type = QpType::rc;
  bool shared_receives = false;  // has a shared receive queue; sent to the peer
  uint32_t qkey = kCmQkey;       // UD: of accept(); sent to the client
};

// The parameters of a side in connect() and accept(); in an event those of the peer (verbs:
// rdma_conn_param).
struct CmParameters {
  std::vector<std::byte> private_data{};  // connect(): at most 56 bytes, accept(): at most 196
  uint8_t responder_resources = 16;  // READs and atomics that the peer may have outstanding here
  uint8_t initiator_depth = 16;      // the same at the peer; lowered to what the peer offers
  uint8_t rnr_retry = 7;             // 0..7, 7 = without limit: the peer's RNR retries
  // connect() only; sent to the acceptor.
  uint8_t retry_count = 7;    // 0..7
  uint8_t timeout = 14;       // retransmission timeout: 4.096 us * 2^14 = 67 ms
  uint32_t path_mtu = 0;      // 0: the device's active_mtu, at most 4096; ibverbs: 0 or the route's
  uint8_t traffic_class = 0;  // DSCP << 2 | ECN
  // Local attributes; only rq_psn is sent.
  Access access = Access::all;  // remote operations that the peer may do through this queue pair
  uint8_t min_rnr_timer = 12;   // index of the RNR timer table: 0.64 ms
  std::optional<Psn> rq_psn{};  // first PSN of the peer's packets; unset: random; not on ibverbs
};

// Reasons of CmEventType::rejected that programs may want to handle (IBTA 12.6.7.2).
// No listener on the port (invalid service ID).
inline constexpr uint16_t kCmNoListener = 8;
inline constexpr uint16_t kCmNobodyListens = kCmNoListener;  // the former name
// The peer had a stale connection of this queue pair number: connect again.
inline constexpr uint16_t kCmStale = 10;
// The peer's program called reject().
inline constexpr uint16_t kCmConsumer = 28;

// The destination of datagrams to a service: SendRequest::to (an AddressHandle of `path`),
// remote_qpn and remote_qkey.
struct CmDatagramService {
  AddressVector path{};
  QpNum qpn{};
  uint32_t qkey = 0;
};

struct CmEvent;

// A handle of a connection or a listener (verbs: rdma_cm_id). Copies name the same one. Destroying
// the last copy disconnects or rejects. Any thread.
class CmId {
 public:
  CmId() = default;
  // For providers.
  explicit CmId(std::shared_ptr<verbs::CmId> impl) : impl_(std::move(impl)) {}
  explicit operator bool() const noexcept { return impl_ != nullptr; }
  bool operator==(const CmId&) const = default;

  // Resolves "10.0.0.1:7174", "[fd77::2]:7174" or "host:7174"; a host name that needs DNS blocks.
  // Ends in address_resolved. Errors: invalid_argument, not_found (also if the host has no address
  // of the device's family), bad_state.
  Result<void> resolve_address(std::string_view address) const;
  // Ends in route_resolved. Over Ethernet this sends nothing: the kernel's routing table applies.
  Result<void> resolve_route() const;

  // Chooses the local port of a new id; 0 picks one. Without it, listen() and connect() choose.
  // The port is claimed by listen() only: two connections may have the same. Errors: bad_state,
  // not_supported (ibverbs).
  Result<void> bind(uint16_t port) const;
  // Listens on a port of the device's address; 0 is the port of bind(), or picks a free one.
  // Errors: address_in_use (names the process that listens there), bad_state, no_memory (1024
  // listeners of one address).
  Result<void> listen(uint16_t port) const;

  // Requests a connection of `qp` (RC or UC, in RESET, or in INIT with receives posted). Ends in
  // established, rejected, unreachable or connect_error. Errors: invalid_argument, bad_state (not
  // resolved; another state), not_supported (ibverbs: UC, path_mtu), no_memory.
  Result<void> connect(const QueuePair& qp, const CmParameters& parameters = {}) const;
  // The same for a queue pair that the program moves itself: ends in connect_response instead of
  // established. RC, UC, or an XRC initiator. Error: not_supported (ibverbs).
  Result<void> connect(const CmQueuePair& qp, const CmParameters& parameters = {}) const;
  // After connect_response: the queue pair is in RTS. Sends the RTU; no event follows. Error:
  // bad_state (the peer gave up meanwhile: the next event says so).
  Result<void> establish() const;
  // The attributes to move the id's queue pair to `state` (verbs: rdma_init_qp_attr): INIT of any
  // id; RTR and RTS after connect_request or connect_response. Those of INIT grant remote access as
  // CmParameters::access. Datagrams: a queue pair of kCmQkey. Errors: invalid_argument (another
  // state), bad_state, not_supported (ibverbs).
  Result<QueuePairAttributes> attributes(QpState state) const;
  // Asks which UD queue pair serves the resolved port (SIDR_REQ); at most 180 bytes of private
  // data. Ends in established (with CmEvent::service), rejected or unreachable. There is no
  // connection, so no disconnected follows. Errors: invalid_argument, bad_state (not resolved, or
  // an id for connections), no_memory.
  Result<void> find_service(std::span<const std::byte> private_data = {}) const;
  // Accepts a connect_request; `qp` is in RTS when it returns. Ends in established or unreachable.
  // Errors as connect(), and bad_state if the peer gave up meanwhile.
  // Datagrams: names a UD queue pair in RTR or RTS and its Q_Key (on ibverbs kCmQkey); of
  // `parameters` only private_data is used, at most 136 bytes. The same queue pair may be named to
  // any number of clients. No event follows.
  Result<void> accept(const QueuePair& qp, const CmParameters& parameters = {}) const;
  // The same for a queue pair that the program has moved to RTR or RTS itself. Error: not_supported
  // (ibverbs).
  Result<void> accept(const CmQueuePair& qp, const CmParameters& parameters = {}) const;
  // Rejects a connect_request; at most 148 bytes of private data, for datagrams 136.
  Result<void> reject(std::span<const std::byte> private_data = {}) const;
  // Moves the queue pair to ERR (not one of a CmQueuePair) and sends a DREQ. disconnected follows,
  // at the latest 4.3 s later if the peer does not answer. No effect if the connection has ended
  // already. Error: bad_state.
  Result<void> disconnect() const;

  // Moves the id and its events that were not taken to another channel of the same device. No other
  // call of the id may run meanwhile. Errors: invalid_argument, not_supported (ibverbs).
  Result<void> migrate(const CmChannel& to) const;

  // The port listened on, or the local port of a connection.
  uint16_t port() const noexcept;
  // The peer's address, valid after address_resolved or connect_request.
  Gid peer_gid() const noexcept;
  // The peer's port, valid as peer_gid().
  uint16_t peer_port() const noexcept;
  // The peer's queue pair number, valid after connect_request or established; 0 for a client of a
  // datagram service.
  QpNum peer_qpn() const noexcept;
  // The path MTU in bytes, valid as peer_qpn().
  uint32_t path_mtu() const noexcept;
  // The queue pair given to connect() or accept(); empty before.
  QueuePair qp() const;

  // For providers.
  const std::shared_ptr<verbs::CmId>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<verbs::CmId> impl_;
};

// An event of a connection. It needs no acknowledgement.
struct CmEvent {
  CmEventType type = CmEventType::disconnected;
  CmId id{};
  CmId listener{};      // connect_request: the listening id
  uint16_t reason = 0;  // rejected: a reason of IBTA 12.6.7.2
  CmParameters peer{};  // connect_request and established; rejected: only its private data
  std::optional<CmQueuePair> queue_pair{};     // of the peer: connect_request, connect_response
  std::optional<CmDatagramService> service{};  // established, after find_service()
  std::optional<Error> error{};                // rejected, unreachable and connect_error
};

// Delivers the events of its ids (verbs: rdma_event_channel). Connections make progress only while
// a thread calls next() or wait(). Copies name the same channel. Any thread.
class CmChannel {
 public:
  CmChannel() = default;
  // Opens a channel. Errors: not_supported (the device has no connection manager), not_found
  // (ibverbs: librdmacm or the kernel module is missing), permission_denied, no_memory.
  static Result<CmChannel> create(const Device& device);
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  // Creates an id of a port space. Errors: not_supported (no datagrams on this device),
  // permission_denied (after fork), no_memory.
  Result<CmId> create_id(CmService service = CmService::connections) const;

  // A descriptor that is readable while there is an event; also once after the last was taken, so
  // that next() may find none. Starts the device's progress in the background. Owned by the
  // channel.
  int fd() const noexcept;
  // Takes the oldest event, if there is one. Never blocks.
  std::optional<CmEvent> next() const;
  // Blocks until there is an event, at most `limit`.
  std::optional<CmEvent> wait(Duration limit = Duration::from_s(1'000'000)) const;

  // For providers.
  const std::shared_ptr<verbs::CmChannel>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<verbs::CmChannel> impl_;
};

}  // namespace weft
