// SPDX-License-Identifier: BSD-3-Clause
// Binding, listening, connecting, accepting and shutting down rsockets. Connecting is a chain of
// events of the connection manager, each of which begins the next step.
#include <rdma/rsocket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/datagram/calls.hpp"
#include "lib/adapters/verbs/rdmacm/stream/calls.hpp"

namespace weft::rdmacm::stream {

namespace {

constexpr int kResolveTimeoutMs = 2000;

void fail(Socket& s, int error) {
  s.phase = Phase::failed;
  s.error = error != 0 ? error : EIO;
  s.may_send = s.may_receive = false;
}

rdma_conn_param parameters_of(const ConnectData& data) {
  rdma_conn_param p{};
  p.private_data = &data;
  p.private_data_len = sizeof data;
  p.retry_count = 7;
  p.rnr_retry_count = 7;
  p.flow_control = 1;
  return p;
}

bool begin_connecting(Socket& s) {
  if (!prepare(s)) return false;
  const ConnectData data = own_data(s);
  rdma_conn_param p = parameters_of(data);
  return rdma_connect(s.id, &p) == 0;
}

void on_event(Socket& s, const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      s.phase = Phase::resolving_route;
      if (rdma_resolve_route(s.id, kResolveTimeoutMs) != 0) fail(s, errno);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      s.phase = Phase::connecting;
      if (!begin_connecting(s)) fail(s, errno);
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      if (s.phase != Phase::connecting) return;  // the accepting side
      if (accept_peer_data(s, event.param.conn.private_data, event.param.conn.private_data_len))
        s.phase = Phase::connected;
      else
        fail(s, EPROTO);
      return;
    case RDMA_CM_EVENT_REJECTED:
      return fail(s, ECONNREFUSED);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return fail(s, ENETUNREACH);
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return fail(s, ETIMEDOUT);
    case RDMA_CM_EVENT_DISCONNECTED:
      progress(s);  // what arrived before
      if (s.phase == Phase::connected) s.phase = Phase::disconnected;
      s.may_send = s.may_receive = false;
      return;
    default:
      return;
  }
}

// A socket of the request; null: it was rejected.
std::shared_ptr<Socket> accept_request(const Socket& listener, const rdma_cm_event& event) {
  const std::shared_ptr<Socket> made = create();
  if (made == nullptr) {
    (void)rdma_reject(event.id, nullptr, 0);
    (void)rdma_destroy_id(event.id);
    return nullptr;
  }
  made->id = event.id;
  made->options = listener.options;
  made->options.descriptor_flags = 0;  // as accept(2)
  if (rdma_migrate_id(made->id, made->channel) != 0 || !prepare(*made) ||
      !accept_peer_data(*made, event.param.conn.private_data, event.param.conn.private_data_len))
    return (void)rdma_reject(made->id, nullptr, 0), nullptr;
  const ConnectData data = own_data(*made);
  rdma_conn_param p = parameters_of(data);
  if (rdma_accept(made->id, &p) != 0) return nullptr;
  made->phase = Phase::connected;
  return made;
}

}  // namespace

void progress_connection(Socket& s) {
  if (s.phase == Phase::idle || s.phase == Phase::bound || s.phase == Phase::listening) return;
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(s.channel, &event) == 0) {
    on_event(s, *event);
    (void)rdma_ack_cm_event(event);
  }
}

}  // namespace weft::rdmacm::stream

using namespace weft::rdmacm;
using namespace weft::rdmacm::stream;

int rbind(int fd, const sockaddr* address, socklen_t) {
  if (const auto done = datagram::with_datagram(
          "rbind", fd, [&](datagram::Socket& s) { return datagram::bind(s, address); }))
    return *done;
  return with_socket("rbind", fd, [&](Socket& s, auto&) {
    if (s.phase != Phase::idle) return refuse(EINVAL, "rbind", "the socket is bound already");
    const int bound = rdma_bind_addr(s.id, const_cast<sockaddr*>(address));
    if (bound == 0) s.phase = Phase::bound;
    return bound;
  });
}

int rlisten(int fd, int backlog) {
  return with_socket("rlisten", fd, [&](Socket& s, auto&) {
    if (s.phase == Phase::listening) return 0;
    const int listens = rdma_listen(s.id, backlog);
    if (listens == 0) s.phase = Phase::listening;
    return listens;
  });
}

int raccept(int fd, sockaddr* address, socklen_t* length) {
  const int accepted = with_socket("raccept", fd, [&](Socket& s, auto& hold) {
    if (s.phase != Phase::listening) return refuse(EINVAL, "raccept", "the socket does not listen");
    rdma_cm_event* event = nullptr;
    for (;;) {
      if (!wait_until(s, hold, !s.nonblocking,
                      [&] { return rdma_get_cm_event(s.channel, &event) == 0; }))
        return -1;
      std::shared_ptr<Socket> made;
      if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) made = accept_request(s, *event);
      (void)rdma_ack_cm_event(event);
      if (made == nullptr) continue;
      add(made);
      return made->channel->fd;
    }
  });
  if (accepted >= 0 && address != nullptr) (void)rgetpeername(accepted, address, length);
  return accepted;
}

int rconnect(int fd, const sockaddr* address, socklen_t) {
  if (const auto done = datagram::with_datagram(
          "rconnect", fd, [&](datagram::Socket& s) { return datagram::connect(s, address); }))
    return *done;
  return with_socket("rconnect", fd, [&](Socket& s, auto& hold) {
    if (s.phase == Phase::connected) return refuse(EISCONN, "rconnect", "it is connected");
    if (s.phase == Phase::idle || s.phase == Phase::bound) {
      s.phase = Phase::resolving_address;
      if (rdma_resolve_addr(s.id, nullptr, const_cast<sockaddr*>(address), kResolveTimeoutMs) != 0)
        return fail(s, errno), -1;
    } else if (s.phase != Phase::failed && s.nonblocking) {
      return errno = EALREADY, -1;
    }
    if (!wait_until(s, hold, !s.nonblocking, [&] { return s.phase >= Phase::connected; }))
      return errno = errno == EINTR ? EINTR : EINPROGRESS, -1;
    if (s.phase == Phase::connected) return 0;
    return errno = s.error, -1;
  });
}

int rshutdown(int fd, int how) {
  if (datagram::is_datagram(fd)) return 0;
  return with_socket("rshutdown", fd, [&](Socket& s, auto& hold) {
    if (how == SHUT_RD) return s.may_receive = false, 0;
    if (s.phase != Phase::connected) return 0;
    const Control what =
        how == SHUT_RDWR || !s.may_receive ? Control::disconnect : Control::shutdown;
    const auto ended = [&] { return s.phase != Phase::connected; };
    bool told = false;
    wait_for(s, hold, [&] { return ended() || (told = send_control(s, what)); });
    wait_for(s, hold, [&] { return ended() || all_sent(s); });
    s.may_send = false;
    if (told && what == Control::disconnect && s.phase == Phase::connected)
      s.phase = Phase::disconnected;
    return 0;
  });
}
