// SPDX-License-Identifier: BSD-3-Clause
// Connection set-up over TCP in one call: both sides exchange queue pair number, PSN, address, MTU
// and up to 4 KiB of private data (for example addresses and keys of memory regions), and move
// their queue pair to RTS. `connect` and `Listener::accept` block; Connector and
// Listener::try_accept are the same as state machines with a pollable descriptor.
//
// Both queue pairs have the same type, or are an XRC initiator and an XRC target (either may
// listen); the target's side passes the numbers of its shared receive queues in private_data. A UD
// queue pair is only moved to RTS: its requests name an AddressHandle of peer_gid, peer_qpn and the
// peer's Q_Key. Programs that are not weft's connect by RDMA CM: cm.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/qp.hpp"
#include "weft/security.hpp"

namespace weft {

// Attributes of the connection. The defaults suit a local network.
struct ConnectOptions {
  std::vector<std::byte> private_data{};  // sent to the peer, at most 4096 bytes
  // Remote operations that the peer may do through this queue pair.
  Access access = Access::all | Access::flush_global | Access::flush_persistent;
  uint32_t path_mtu = 0;        // 0: the smaller of both devices' active_mtu
  uint8_t max_rd_atomic = 16;   // outstanding READs and atomics; lowered to the smaller limit
  uint8_t timeout = 14;         // retransmission timeout: 4.096 us * 2^14 = 67 ms
  uint8_t retry_count = 7;      // 0..7
  uint8_t rnr_retry = 7;        // 0..7, 7 = without limit
  uint8_t min_rnr_timer = 12;   // index of the RNR timer table: 0.64 ms
  std::optional<Psn> sq_psn{};  // unset: random
  uint8_t traffic_class = 0;
  uint32_t qkey = 0x11111111;             // UD: Q_Key that datagrams to our queue pair must carry
  Duration limit = Duration::from_s(30);  // for the whole exchange
  Security security{};                    // who may be the peer
  // Connection::control, on both sides.
  bool keep_control = false;
};

// A connected queue pair, in RTS. `peer_data`: the private_data of the peer. `path_mtu` in bytes.
struct Connection {
  QueuePair qp{};
  std::vector<std::byte> peer_data{};
  Gid peer_gid{};
  QpNum peer_qpn{};
  uint32_t path_mtu = 0;
  // With ConnectOptions::keep_control: the descriptor of the TCP connection, which becomes readable
  // when the peer's process ends or has released its side. The last copy closes it.
  std::shared_ptr<const int> control{};
};

// Connects `qp` to the listener at `address` ("host:port", "[v6]:port" or "host") and blocks until
// both queue pairs are in RTS. `qp` is in RESET, or in INIT with receives posted. Errors:
// invalid_argument, bad_state, not_found (no listener), timed_out, disconnected (also: the peer
// refused), not_supported, io_error, no_memory. If it fails before `qp` was changed, `qp` keeps its
// state; later `qp` is in ERR.
Result<Connection> connect(std::string_view address, QueuePair qp,
                           const ConnectOptions& options = {});

// The default TCP port, the same as that of perftest.
inline constexpr uint16_t kDefaultTcpPort = 18515;

// The connecting side as a state machine: call advance() until it returns a Connection. One thread
// at a time. Destroying it before that aborts the exchange and tells the peer.
class Connector {
 public:
  // Starts the TCP connection. Blocks only for DNS, if `address` is a host name. Errors as
  // connect().
  static Result<Connector> start(std::string_view address, QueuePair qp,
                                 const ConnectOptions& options = {});
  Connector(Connector&&) noexcept;
  Connector& operator=(Connector&&) noexcept;
  ~Connector();

  // The descriptor to poll before the next advance(). It changes when the host has several
  // addresses, so ask again after each advance().
  int fd() const noexcept;
  // The events to poll for: POLLIN or POLLOUT.
  short poll_events() const noexcept;
  // Continues the exchange; never blocks. Error would_block: not finished. Any other error is final
  // and was sent to the peer.
  Result<Connection> advance();

 private:
  friend class Listener;
  struct State;
  explicit Connector(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The listening side: a TCP port at which peers connect. Any thread.
class Listener {
 public:
  // Listens at `address`, as for connect(); "host:0" picks a free port, "" listens on all
  // addresses. Errors: invalid_argument, not_found, address_in_use, permission_denied, io_error.
  static Result<Listener> listen(std::string_view address);
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  // The TCP port.
  uint16_t port() const noexcept;
  // Readable when a peer waits for try_accept().
  int fd() const noexcept;

  // Blocks until a peer connects, and connects `qp` to it. Error timed_out after options.limit,
  // others as connect().
  Result<Connection> accept(QueuePair qp, const ConnectOptions& options = {});
  // The same without blocking. Error would_block: no peer waits. Otherwise advance() the Connector.
  Result<Connector> try_accept(QueuePair qp, const ConnectOptions& options = {});
  // Why the last peer that tried to connect was refused, with its address: disconnected or
  // timed_out if it did not say who it is. Empty: none was refused, or no memory.
  std::optional<Error> last_refusal() const noexcept;

 private:
  struct State;
  explicit Listener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
