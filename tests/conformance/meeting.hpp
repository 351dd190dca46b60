// SPDX-License-Identifier: BSD-3-Clause
// Connects queue pairs of two processes: by connect(), or by the connection manager on devices that
// support nothing else (iWARP).
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/weft.hpp"

namespace weft::test {

using Bytes = std::vector<std::byte>;

// A connected queue pair; on iWARP the connection lasts as long as the id.
struct Met {
  QueuePair qp;
  Bytes peer_data;
  CmId id;
};

// Where a server is met.
class Door {
 public:
  static Result<Door> open(const Device& device) {
    Door door;
    if (!device.attributes().only_by_cm) {
      Result<Listener> listener = Listener::listen(":0");
      if (!listener) return listener.error();
      door.listener_ = std::move(*listener);
      return door;
    }
    Result<CmChannel> channel = CmChannel::create(device);
    if (!channel) return channel.error();
    door.channel_ = std::move(*channel);
    door.id_ = *door.channel_.create_id();
    if (const Result<void> ok = door.id_.listen(0); !ok) return ok.error();
    return door;
  }
  uint16_t port() const { return channel_ ? id_.port() : listener_->port(); }

  // Waits 100 ms at most for a client, which is connected to the queue pair that `make` creates.
  // Also releases queue pairs whose connection has ended.
  std::optional<Met> accept(const std::function<QueuePair()>& make, const Bytes& said) {
    pollfd waiting{channel_ ? channel_.fd() : listener_->fd(), POLLIN, 0};
    if (poll(&waiting, 1, 100) != 1) return std::nullopt;
    if (channel_) return accept_by_cm(make(), said);
    Result<Connection> peer =
        listener_->accept(make(), {.private_data = said, .limit = Duration::from_s(20)});
    if (!peer) return std::nullopt;
    return Met{std::move(peer->qp), std::move(peer->peer_data), {}};
  }

 private:
  std::optional<Met> accept_by_cm(const QueuePair& qp, const Bytes& said) {
    const std::optional<CmEvent> event = channel_.next();
    if (!event || event->type != CmEventType::connect_request) return std::nullopt;
    if (!event->id.accept(qp, {.private_data = said})) return std::nullopt;
    return Met{qp, {}, event->id};
  }

  std::optional<Listener> listener_;
  CmChannel channel_;
  CmId id_;
};

// The client's side.
class Connector {
 public:
  explicit Connector(const Device& device) : device_(device) {
    if (device.attributes().only_by_cm) channel_ = *CmChannel::create(device);
  }
  // `address`: HOST:PORT; with the connection manager HOST is the device's own.
  Result<Met> meet(const std::string& address, const QueuePair& qp, uint8_t timeout) {
    if (channel_) return meet_by_cm(address.substr(address.rfind(':')), qp);
    Result<Connection> peer = connect(address, qp, {.timeout = timeout});
    if (!peer) return peer.error();
    return Met{std::move(peer->qp), std::move(peer->peer_data), {}};
  }
  // Takes events of connections that have ended.
  void drain_cm_events() const {
    while (channel_ && channel_.next()) {
    }
  }

 private:
  Result<Met> meet_by_cm(const std::string& port, const QueuePair& qp) {
    const CmId id = *channel_.create_id();
    Result<void> ok = id.resolve_address(to_string(device_.attributes().gid) + port);
    Result<CmEvent> event = ok ? next(CmEventType::address_resolved) : ok.error();
    if (event && (ok = id.resolve_route(), ok)) event = next(CmEventType::route_resolved);
    if (event && ok && (ok = id.connect(qp), ok)) event = next(CmEventType::established);
    if (!ok) return ok.error();
    if (!event) return event.error();
    return Met{qp, event->peer.private_data, id};
  }
  Result<CmEvent> next(CmEventType type) const {
    std::optional<CmEvent> event = channel_.wait(Duration::from_s(20));
    while (event && event->type == CmEventType::disconnected)
      event = channel_.wait(Duration::from_s(20));
    if (!event) return Error{Code::timed_out, "no event of the connection manager"};
    if (event->type == type) return std::move(*event);
    return event->error.value_or(Error{Code::io_error, std::string(name(event->type))});
  }

  Device device_;
  CmChannel channel_;
};

}  // namespace weft::test
