// SPDX-License-Identifier: BSD-3-Clause
// Connection set-up: the steps of a Connector, one function each, and connect(), which is a
// Connector driven by poll(2). The protocol is described in connect_wire.hpp.
//
// A failure before our queue pair was modified leaves it unchanged. Later it goes to ERR, so that
// every posted request is flushed.
#include "weft/connect.hpp"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/guarded.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"
#include "lib/verbs/connect_state.hpp"

namespace weft {

using base::guarded;

namespace verbs {
namespace {

Result<Psn> random_psn() {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value))
    return Error{Code::io_error, "getrandom failed: no random sequence number"};
  return Psn{value & Psn::kMask};
}

Result<void> check_state(const QueuePair& qp) {
  const QpState state = qp.state();
  if (state == QpState::reset || state == QpState::init) return {};
  return Error{Code::bad_state, "connect needs a queue pair in RESET or INIT, this one is in " +
                                    std::string(name(state))};
}

}  // namespace

Result<Hello> make_hello(const QueuePair& qp, const ConnectOptions& options) {
  if (!qp) return Error{Code::invalid_argument, "connect needs a queue pair"};
  if (const Result<void> fit = check_state(qp); !fit) return fit.error();
  if (options.private_data.size() > kMaxPrivateData)
    return Error{Code::invalid_argument, "private_data has " +
                                             std::to_string(options.private_data.size()) +
                                             " bytes, at most 4096 fit"};
  const DeviceAttributes& device = qp.device().attributes();
  if (device.only_by_cm)
    return Error{Code::not_supported,
                 "device " + device.port +
                     " is iWARP, whose queue pairs a connection manager connects, not connect(): "
                     "use weft/cm.hpp (-R of the weft_* programs)"};
  const uint32_t mtu = options.path_mtu != 0 ? options.path_mtu : device.active_mtu;
  if (!is_path_mtu(qp.type(), mtu) || mtu > device.max_mtu)
    return Error{Code::invalid_argument, "path_mtu " + std::to_string(mtu) + " is not " +
                                             (qp.type() == QpType::srd ? "" : "a power of two ") +
                                             "from 256 to " + std::to_string(device.max_mtu)};
  if (options.sq_psn && options.sq_psn->value > Psn::kMask)
    return Error{Code::invalid_argument, "sq_psn has more than 24 bits"};
  const Result<Psn> psn = options.sq_psn ? Result<Psn>(*options.sq_psn) : random_psn();
  if (!psn) return psn.error();

  Hello hello;
  hello.gid = device.gid;
  hello.qpn = qp.number();
  hello.psn = *psn;
  hello.path_mtu = mtu;
  hello.max_rd_atomic =
      static_cast<uint8_t>(std::min<uint32_t>(options.max_rd_atomic, device.max_rd_atomic));
  hello.service = qp.type();
  if (device.telemetry) hello.capabilities |= kCanTelemetry;
  if (device.selective_repeat) hello.capabilities |= kCanSelectiveRepeat;
  hello.transport = (device.provider + "+" + device.port).substr(0, kMaxTransport);
  hello.private_data = options.private_data;
  return hello;
}

// The type that the peer's queue pair must have.
static QpType counterpart(QpType type) {
  if (type == QpType::xrc_initiator) return QpType::xrc_target;
  return type == QpType::xrc_target ? QpType::xrc_initiator : type;
}

Result<void> check_peer(const Hello& ours, const Hello& peer) {
  if (is_xrc(ours.service) && peer.service == ours.service)
    return Error{Code::invalid_argument, "both sides have a queue pair of type " +
                                             std::string(name(ours.service)) +
                                             ": an xrc_initiator talks to an xrc_target"};
  if (peer.service != counterpart(ours.service) && (is_xrc(ours.service) || is_xrc(peer.service)))
    return Error{Code::invalid_argument,
                 "one side has a queue pair of type " + std::string(name(ours.service)) +
                     ", the other of type " + std::string(name(peer.service)) +
                     ": an xrc_initiator talks to an xrc_target"};
  if (peer.service != counterpart(ours.service))
    return Error{Code::invalid_argument,
                 "one side has a queue pair of type " + std::string(name(ours.service)) +
                     ", the other of type " + std::string(name(peer.service)) +
                     ": create both with the same QueuePairOptions::type"};
  if (transports_match(ours.transport, peer.transport)) return {};
  return Error{Code::not_supported, "one side is on " + ours.transport + ", the other on " +
                                        peer.transport + ": open both with the same device string"};
}

namespace {

using Step = Handshake::Step;

// The attributes of each transition, by service. //= roce:C-STATE-55 roce:C-STATE-56
QueuePairAttributes init_attributes(const Handshake& s) {
  QueuePairAttributes a{.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}};
  if (s.ours.service == QpType::ud)
    a.qkey = s.options.qkey;
  else
    a.access = s.options.access;
  return a;
}

QueuePairAttributes rtr_attributes(const Handshake& s) {
  QueuePairAttributes a{.state = QpState::rtr};
  if (s.ours.service == QpType::ud) return a;
  a.path = AddressVector{.destination = s.peer.gid, .traffic_class = s.options.traffic_class};
  a.path_mtu = std::min(s.ours.path_mtu, s.peer.path_mtu);
  a.dest_qpn = s.peer.qpn;
  a.rq_psn = s.peer.psn;
  if (s.ours.service == QpType::uc) return a;
  const int both = s.ours.capabilities & s.peer.capabilities;
  if (both & kCanTelemetry) a.telemetry = true;
  if (s.ours.service == QpType::rc && (both & kCanSelectiveRepeat)) a.selective_repeat = true;
  if (s.ours.service == QpType::xrc_initiator) return a;
  a.max_dest_rd_atomic = std::min(s.ours.max_rd_atomic, s.peer.max_rd_atomic);
  a.min_rnr_timer = s.options.min_rnr_timer;
  return a;
}

QueuePairAttributes rts_attributes(const Handshake& s) {
  QueuePairAttributes a{.state = QpState::rts, .sq_psn = s.ours.psn};
  if (s.ours.service != QpType::rc && s.ours.service != QpType::xrc_initiator) return a;
  a.max_rd_atomic = std::min(s.ours.max_rd_atomic, s.peer.max_rd_atomic);
  a.timeout = s.options.timeout;
  a.retry_count = s.options.retry_count;
  a.rnr_retry = s.options.rnr_retry;
  return a;
}

Result<void> walk_to_rts(Handshake& s) {
  s.qp_modified = true;
  if (s.qp.state() == QpState::reset) {
    const Result<void> init = s.qp.modify(init_attributes(s));
    if (!init) return init;
  }
  const Result<void> rtr = s.qp.modify(rtr_attributes(s));
  if (!rtr) return rtr;
  return s.qp.modify(rts_attributes(s));
}

Result<void> exchange_hello(Handshake& s) {
  if (const Result<void> sent = s.channel.flush(); !sent) return sent;
  const Result<MessageKind> kind = s.channel.receive();
  if (!kind) return kind.error();
  if (*kind != MessageKind::hello)
    return Error{Code::invalid_argument, "the peer's first message is no hello"};
  Result<Hello> peer = parse_hello(s.channel.body());
  if (!peer) return peer.error();
  s.peer = std::move(*peer);
  if (const Result<void> fit = check_peer(s.ours, s.peer); !fit) return fit;
  if (const Result<void> walked = walk_to_rts(s); !walked) return walked;
  s.channel.next();
  s.step = Step::await_ready;
  return s.channel.queue(emit_ready());
}

Result<void> receive_ready(Handshake& s) {
  if (const Result<void> sent = s.channel.flush(); !sent) return sent;
  const Result<MessageKind> kind = s.channel.receive();
  if (!kind) return kind.error();
  if (*kind != MessageKind::ready)
    return Error{Code::invalid_argument, "the peer sent a second hello"};
  s.channel.next();
  return {};
}

Result<void> await_ready(Handshake& s) {
  const Result<void> ready = receive_ready(s);
  if (ready) s.step = Step::done;
  return ready;
}

Result<void> await_peer_ready(Handshake& s) {
  if (const Result<void> ready = receive_ready(s); !ready) return ready;
  if (const Result<void> fit = check_state(s.qp); !fit) return fit;
  if (const Result<void> walked = walk_to_rts(s); !walked) return walked;
  s.step = Step::send_ready;
  return s.channel.queue(emit_ready());
}

Result<void> send_ready(Handshake& s) {
  const Result<void> sent = s.channel.flush();
  if (sent) s.step = Step::done;
  return sent;
}

Result<void> one_step(Handshake& s) {
  switch (s.step) {
    case Step::tcp_connect:
      return tcp_connect(s);
    case Step::agree_on_terms:
      return agree_on_terms(s);
    case Step::exchange_hello:
      return exchange_hello(s);
    case Step::await_ready:
      return await_ready(s);
    case Step::await_peer_ready:
      return await_peer_ready(s);
    case Step::send_ready:
      return send_ready(s);
    case Step::done:
      return Error{Code::bad_state, "this Connector has handed out its Connection already"};
    case Step::failed:
      break;
  }
  return s.error;
}

void fail(Handshake& s, Error error) noexcept {
  if (s.step == Step::done || s.step == Step::failed) return;
  // Sends a reject, unless TCP is not connected or there is no memory for it.
  if (s.step != Step::tcp_connect)
    (void)base::memory_permitting([&] { s.channel.reject(error.message); });
  s.socket.close();
  s.channel.close();
  if (s.qp_modified) (void)s.qp.modify({.state = QpState::err});
  s.error = std::move(error);
  s.step = Step::failed;
}

Error timeout_error(const Handshake& s) {
  std::string text = "no answer from " + s.target + " within the time limit";
  if (s.step == Step::agree_on_terms || s.step == Step::exchange_hello)
    text = s.target + " took the TCP connection, but no queue pair was offered in time";
  return {Code::timed_out, std::move(text)};
}

std::shared_ptr<const int> shared(base::Socket socket) {
  auto owner = std::make_shared<std::pair<base::Socket, int>>(std::move(socket), 0);
  owner->second = owner->first.fd();
  return {owner, &owner->second};
}

Result<Connection> advance(Handshake& s) {
  if (s.step == Step::done || s.step == Step::failed) return one_step(s).error();
  WEFT_DCHECK((s.step == Step::tcp_connect ? s.socket.fd() : s.channel.fd()) >= 0 && s.qp);
  do {
    if (const Result<void> moved = one_step(s); !moved) {
      const bool waits = moved.error().code == Code::would_block;
      if (waits && base::wall_now() < s.deadline) return moved.error();
      fail(s, waits ? timeout_error(s) : moved.error());
      return s.error;
    }
  } while (s.step != Step::done);

  Connection connection;
  if (s.options.keep_control) connection.control = shared(s.channel.take_socket());
  s.channel.close();
  connection.qp = s.qp;
  connection.peer_data = std::move(s.peer.private_data);
  connection.peer_gid = s.peer.gid;
  connection.peer_qpn = s.peer.qpn;
  connection.path_mtu = std::min(s.ours.path_mtu, s.peer.path_mtu);
  return connection;
}

}  // namespace
}  // namespace verbs

Connector::State::~State() {
  Error why{Code::disconnected, {}};
  (void)base::memory_permitting([&] { why.message = "the peer gave up"; });
  verbs::fail(*this, std::move(why));
}

Connector::Connector(std::unique_ptr<State> state) : state_(std::move(state)) {}
Connector::Connector(Connector&&) noexcept = default;
Connector& Connector::operator=(Connector&&) noexcept = default;
Connector::~Connector() = default;

Result<Connector> Connector::start(std::string_view address, QueuePair qp,
                                   const ConnectOptions& options) {
  return guarded([&]() -> Result<Connector> {
    Result<base::HostPort> where = base::parse_host_port(address, kDefaultTcpPort);
    if (!where) return where.error();
    if (where->host.empty() || where->port == 0)
      return Error{
          Code::invalid_argument,
          "connect needs host and port, like 127.0.0.1:18515; not '" + std::string(address) + "'"};
    Result<verbs::Hello> ours = verbs::make_hello(qp, options);
    if (!ours) return ours.error();
    Result<std::vector<base::SocketAddress>> addresses = base::resolve(*where, false);
    if (!addresses) return addresses.error();

    auto state = std::make_unique<State>();
    state->qp = std::move(qp);
    state->options = options;
    const bool v6 = where->host.find(':') != std::string::npos;
    state->target =
        (v6 ? "[" + where->host + "]" : where->host) + ":" + std::to_string(where->port);
    state->deadline = base::wall_now() + options.limit;
    state->addresses = std::move(*addresses);
    state->ours = std::move(*ours);
    if (const Result<void> dialed = verbs::connect_next_address(*state); !dialed)
      return dialed.error();
    return Connector(std::move(state));
  });
}

int Connector::fd() const noexcept {
  if (!state_) return -1;
  return state_->step == State::Step::tcp_connect ? state_->socket.fd() : state_->channel.fd();
}

short Connector::poll_events() const noexcept {
  if (!state_) return 0;
  const bool writes = state_->step == State::Step::tcp_connect || !state_->channel.flushed();
  return writes ? POLLOUT : POLLIN;
}

// Running out of memory fails the exchange.
Result<Connection> Connector::advance() {
  return guarded([&]() -> Result<Connection> {
    if (!state_) return Error{Code::bad_state, "this Connector was moved away"};
    const std::lock_guard lock(state_->mutex);
    base::Undo undo([&] { verbs::fail(*state_, {Code::no_memory, base::kOutOfMemory}); });
    Result<Connection> moved = verbs::advance(*state_);
    undo.forget();
    return moved;
  });
}

Result<Connection> connect(std::string_view address, QueuePair qp, const ConnectOptions& options) {
  return guarded([&]() -> Result<Connection> {
    const Instant deadline = base::wall_now() + options.limit;
    Result<Connector> connector = Connector::start(address, std::move(qp), options);
    if (!connector) return connector.error();
    for (;;) {
      Result<Connection> connection = connector->advance();
      if (connection || connection.error().code != Code::would_block) return connection;
      const Instant look_again = base::wall_now() + Duration::from_ms(100);
      (void)base::wait_for(connector->fd(), connector->poll_events(),
                           std::min(deadline, look_again));
    }
  });
}

}  // namespace weft
