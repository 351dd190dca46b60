// SPDX-License-Identifier: BSD-3-Clause
// One-call connection set-up over TCP: both sides exchange QP number, PSN, address and MTU, and up
// to 4 KiB of the application's own data (addresses and keys of its regions, say), and walk their
// queue pair to RTS. `connect` and `Listener::accept` block; Connector and Listener are the same as
// state machines with a pollable descriptor. Both queue pairs are of one type, or an XRC initiator
// and an XRC target, whoever of them listens; the target's side puts the numbers of its shared
// receive queues into private_data. A UD queue pair is only made ready: its requests name an
// AddressHandle of peer_gid, peer_qpn and the peer's Q_Key.
// cm.hpp connects as other RDMA programs do.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/qp.hpp"

namespace weft {

// How the queue pair is connected, beyond what it was created with.
struct ConnectOptions {
  std::vector<std::byte> private_data;  // given to the peer, <= 4096 bytes
  // What the peer may do through this queue pair.
  Access access = Access::all | Access::flush_global | Access::flush_persistent;
  uint32_t path_mtu = 0;       // 0: the smaller of both devices' active_mtu
  uint8_t max_rd_atomic = 16;  // lowered to what both sides can
  uint8_t timeout = 14;        // 4.096 us * 2^14 = 67 ms
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  // 0.64 ms
  std::optional<Psn> sq_psn;   // unset: random
  uint8_t traffic_class = 0;
  uint32_t qkey = 0x11111111;             // UD: of our queue pair; datagrams to it carry it
  Duration limit = Duration::from_s(30);  // for the whole exchange
};

// A connected queue pair. `peer_data` is what the peer put into private_data.
struct Connection {
  QueuePair qp;
  std::vector<std::byte> peer_data;
  Gid peer_gid;
  QpNum peer_qpn;
  uint32_t path_mtu = 0;
};

// Connects `qp` (in RESET or INIT; receives may be posted before in INIT) to a listener at
// `address`, "host:port", "[v6]:port" or "host". Errors: timed_out, disconnected, not_found,
// io_error.
Result<Connection> connect(std::string_view address, QueuePair qp,
                           const ConnectOptions& options = {});

// The default TCP port, as perftest's.
inline constexpr uint16_t kDefaultTcpPort = 18515;

// The connecting side as a state machine: advance() until it returns a Connection. It never blocks
// (start() does, if `address` is a name that needs DNS). Poll again on fd() after each advance(): a
// host with several addresses has one descriptor after the other.
class Connector {
 public:
  static Result<Connector> start(std::string_view address, QueuePair qp,
                                 const ConnectOptions& options = {});
  Connector(Connector&&) noexcept;
  Connector& operator=(Connector&&) noexcept;
  ~Connector();

  int fd() const noexcept;             // pollable
  short poll_events() const noexcept;  // POLLIN or POLLOUT: what to wait for
  // would_block until done; any other error is final, no_memory too: the peer hears of it.
  Result<Connection> advance();

 private:
  friend class Listener;
  struct State;
  explicit Connector(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class Listener {
 public:
  // `address` as for connect; "host:0" picks a free port, "" listens on all addresses.
  static Result<Listener> listen(std::string_view address);
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  uint16_t port() const noexcept;
  int fd() const noexcept;  // readable when a peer waits

  // Blocks for a peer, then connects `qp` to it. Error timed_out after options.limit.
  Result<Connection> accept(QueuePair qp, const ConnectOptions& options = {});
  // The same without blocking: would_block if no peer waits, else a Connector to advance.
  Result<Connector> try_accept(QueuePair qp, const ConnectOptions& options = {});

 private:
  struct State;
  explicit Listener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
