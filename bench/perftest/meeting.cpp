// SPDX-License-Identifier: BSD-3-Clause
// See meeting.hpp. Waits are short, so that Ctrl-C works.
#include "bench/perftest/meeting.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/perftest/clock.hpp"
#include "bench/perftest/control.hpp"

namespace weft::bench {
namespace {

// The server's address.
std::string address_of(const Options& o) {
  const bool bare_v6 = o.meeting.host.find(':') != std::string::npos && o.meeting.host[0] != '[';
  return (bare_v6 ? "[" + o.meeting.host + "]" : o.meeting.host) + ":" +
         std::to_string(o.meeting.port);
}

// For a connection of TCP, which is two SYNs, and with --connect_wait until the server answers.
constexpr uint64_t kSilenceLimit = 2'000'000'000;

// Of tcp_info::tcpi_state; <netinet/tcp.h> has their names, and a tcp_info without what was
// received.
constexpr uint8_t kEstablished = 1, kSynSent = 2;

tcp_info tcp_of(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  (void)getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
  return info;
}

class TcpMeeting final : public Meeting {
 public:
  explicit TcpMeeting(const Options& options)
      : address_(address_of(options)), wait_s_(options.meeting.connect_wait_s) {}
  Result<void> listen(uint16_t port) {
    Result<Listener> listener = Listener::listen(":" + std::to_string(port));
    if (!listener) return listener.error();
    listener_ = std::move(*listener);
    return {};
  }
  size_t private_data() const noexcept override { return 4096; }
  Result<Connection> join(const QueuePair& qp, const ConnectOptions& how) override {
    return listener_ ? accept(qp, how) : connect_with_retries(qp, how);
  }

 private:
  // An address that takes no SYN, and a server that says nothing, are given up long before the time
  // for the whole exchange.
  Result<Connection> finish(Connector connector) const {
    const uint64_t start = monotonic_ns();
    for (;;) {
      Result<Connection> connection = connector.advance();
      if (connection || connection.error().code != Code::would_block) return connection;
      if (std::optional<Error> silence = silence_of(connector, monotonic_ns() - start))
        return *std::move(silence);
      if (interrupted()) return interruption();
      pollfd p{connector.fd(), connector.poll_events(), 0};
      (void)poll(&p, 1, 100);
    }
  }
  std::optional<Error> silence_of(const Connector& connector, uint64_t since_ns) const {
    if (since_ns < kSilenceLimit) return {};
    const tcp_info tcp = tcp_of(connector.fd());
    if (tcp.tcpi_state == kSynSent)
      return Error{Code::timed_out,
                   "no answer from " + address_ +
                       " to TCP: is the host up, and does a firewall let the port pass?"};
    const uint64_t limit = kSilenceLimit + static_cast<uint64_t>(wait_s_ * 1e9);
    if (listener_ || tcp.tcpi_state != kEstablished || tcp.tcpi_bytes_received != 0 ||
        since_ns < limit)
      return {};
    return Error{Code::timed_out,
                 address_ + " took the TCP connection and has said nothing for " +
                     std::to_string(limit / 1'000'000) +
                     " ms: is it the server of this program, and busy with another client? "
                     "--connect_wait is the time to wait"};
  }
  Result<Connection> accept(const QueuePair& qp, const ConnectOptions& how) {
    for (;;) {
      Result<Connector> connector = listener_->try_accept(qp, how);
      if (connector) return finish(std::move(*connector));
      if (connector.error().code != Code::would_block) return connector.error();
      if (std::optional<Error> refused = refusal()) return *std::move(refused);
      if (interrupted()) return interruption();
      pollfd p{listener_->fd(), POLLIN, 0};
      (void)poll(&p, 1, 200);
    }
  }
  // The listener turns peers away that do not fit and waits for the next. A server here has one
  // client, so it ends with what that one said; peers that said nothing may be probes of the port.
  std::optional<Error> refusal() const {
    std::optional<Error> last = listener_->last_refusal();
    if (!last || last->code == Code::timed_out || last->code == Code::disconnected) return {};
    last->message = "refused " + last->message;
    return last;
  }
  // Retries until --connect_wait: scripts start both sides at the same time.
  Result<Connection> connect_with_retries(const QueuePair& qp, const ConnectOptions& how) const {
    const uint64_t deadline = monotonic_ns() + static_cast<uint64_t>(wait_s_ * 1e9);
    for (;;) {
      Result<Connector> connector = Connector::start(address_, qp, how);
      if (!connector) return connector.error();
      Result<Connection> connection = finish(std::move(*connector));
      if (connection || connection.error().code != Code::not_found || monotonic_ns() > deadline)
        return connection;
      usleep(20'000);
    }
  }

  const std::string address_;
  const double wait_s_;
  std::optional<Listener> listener_;
};

class CmMeeting final : public Meeting {
 public:
  CmMeeting(const Options& options, CmChannel channel)
      : address_(address_of(options)),
        wait_s_(options.meeting.connect_wait_s),
        channel_(std::move(channel)) {}
  Result<void> listen(uint16_t port) {
    const Result<CmId> id = channel_.create_id();
    if (!id) return id.error();
    listener_ = *id;
    return listener_.listen(port);
  }
  size_t private_data() const noexcept override { return 56; }
  Result<Connection> join(const QueuePair& qp, const ConnectOptions& how) override {
    return listener_ ? accept(qp, how) : connect_with_retries(qp, how);
  }

 private:
  static CmParameters parameters_of(const ConnectOptions& how) {
    return {.private_data = how.private_data,
            .responder_resources = how.max_rd_atomic,
            .initiator_depth = how.max_rd_atomic,
            .rnr_retry = how.rnr_retry,
            .retry_count = how.retry_count,
            .timeout = how.timeout,
            .path_mtu = how.path_mtu,
            .traffic_class = how.traffic_class,
            .access = how.access,
            .min_rnr_timer = how.min_rnr_timer};
  }
  Result<CmEvent> expect(CmEventType type) {
    for (;;) {
      std::optional<CmEvent> event = channel_.wait(Duration::from_ms(200));
      if (interrupted()) return interruption();
      if (!event) continue;
      if (event->type == type) return std::move(*event);
      if (event->error) return *event->error;
      if (event->type == CmEventType::disconnected)
        return Error{Code::disconnected,
                     "the peer disconnected during connection setup; see its output"};
    }
  }
  Connection connection_of(const CmId& id, std::vector<std::byte> private_data_of_peer) {
    ids_.push_back(id);
    return {.qp = id.qp(),
            .peer_data = std::move(private_data_of_peer),
            .peer_gid = id.peer_gid(),
            .peer_qpn = id.peer_qpn(),
            .path_mtu = id.path_mtu()};
  }
  Result<Connection> accept(const QueuePair& qp, const ConnectOptions& how) {
    Result<CmEvent> asked = expect(CmEventType::connect_request);
    if (!asked) return asked.error();
    if (const Result<void> ok = asked->id.accept(qp, parameters_of(how)); !ok) return ok.error();
    const Result<CmEvent> done = expect(CmEventType::established);
    if (!done) return done.error();
    return connection_of(asked->id, std::move(asked->peer.private_data));
  }
  Result<CmId> resolve() {
    Result<CmId> id = channel_.create_id();
    if (!id) return id;
    if (const Result<void> ok = id->resolve_address(address_); !ok) return ok.error();
    if (const auto event = expect(CmEventType::address_resolved); !event) return event.error();
    if (const Result<void> ok = id->resolve_route(); !ok) return ok.error();
    if (const auto event = expect(CmEventType::route_resolved); !event) return event.error();
    return id;
  }
  // Retries until --connect_wait: the server may not listen yet.
  Result<Connection> connect_with_retries(const QueuePair& qp, const ConnectOptions& how) {
    const uint64_t deadline = monotonic_ns() + static_cast<uint64_t>(wait_s_ * 1e9);
    for (;;) {
      const Result<CmId> id = resolve();
      if (!id) return id.error();
      if (const Result<void> ok = id->connect(qp, parameters_of(how)); !ok) return ok.error();
      Result<CmEvent> done = expect(CmEventType::established);
      if (done) return connection_of(*id, std::move(done->peer.private_data));
      if (interrupted() || monotonic_ns() > deadline) return done.error();
      usleep(20'000);
    }
  }

  const std::string address_;
  const double wait_s_;
  CmChannel channel_;
  CmId listener_;
  std::vector<CmId> ids_;  // keep the connections open
};

template <class Transport>
Result<std::unique_ptr<Meeting>> open_transport(std::unique_ptr<Transport> transport,
                                                const Options& options) {
  if (options.is_server())
    if (const Result<void> ok = transport->listen(options.meeting.port); !ok) return ok.error();
  return std::unique_ptr<Meeting>(std::move(transport));
}

}  // namespace

Result<std::unique_ptr<Meeting>> Meeting::open(const Options& options, const Device& device) {
  if (!options.meeting.cm) return open_transport(std::make_unique<TcpMeeting>(options), options);
  Result<CmChannel> channel = CmChannel::create(device);
  if (!channel) return channel.error();
  return open_transport(std::make_unique<CmMeeting>(options, std::move(*channel)), options);
}

}  // namespace weft::bench
