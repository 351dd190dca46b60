// SPDX-License-Identifier: BSD-3-Clause
// C API: connections over TCP, blocking and step by step.
#include "lib/adapters/c/call.hpp"

using weft::c::call;
using weft::c::failed;

static weft_connect_options defaults() {
  const weft::ConnectOptions options;
  weft_connect_options it{};
  it.size = sizeof it;
  it.access = static_cast<uint32_t>(options.access);
  it.path_mtu = options.path_mtu;
  it.qkey = options.qkey;
  it.limit_ms = static_cast<uint32_t>(options.limit.ms());
  it.max_rd_atomic = options.max_rd_atomic;
  it.timeout = options.timeout;
  it.retry_count = options.retry_count;
  it.rnr_retry = options.rnr_retry;
  it.min_rnr_timer = options.min_rnr_timer;
  it.traffic_class = options.traffic_class;
  return it;
}

void weft_connect_options_init(weft_connect_options* options, size_t size) {
  weft::c::initialise(options, size, defaults());
}

// Calls use(options of C++).
template <class Use>
static weft_code with(const weft_connect_options* options, Use use) {
  auto it = defaults();
  if (const weft_code bad = weft::c::known(options, it, "weft_connect_options"); bad != WEFT_OK)
    return bad;
  if (it.private_size > WEFT_MAX_PRIVATE_DATA ||
      (it.private_data == nullptr && it.private_size != 0))
    return failed(weft::Code::invalid_argument,
                  "weft_connect_options: private_size is " + std::to_string(it.private_size) +
                      ": at most 4096, and 0 where private_data is NULL");
  weft::ConnectOptions wanted;
  const auto* const bytes = static_cast<const std::byte*>(it.private_data);
  wanted.private_data.assign(bytes, bytes + it.private_size);
  wanted.access = static_cast<weft::Access>(it.access);
  wanted.path_mtu = it.path_mtu;
  wanted.qkey = it.qkey;
  wanted.limit = weft::Duration::from_ms(it.limit_ms);
  wanted.max_rd_atomic = it.max_rd_atomic;
  wanted.timeout = it.timeout;
  wanted.retry_count = it.retry_count;
  wanted.rnr_retry = it.rnr_retry;
  wanted.min_rnr_timer = it.min_rnr_timer;
  wanted.traffic_class = it.traffic_class;
  wanted.security.insecure = it.insecure != 0;
  if (it.secret != nullptr) wanted.security.secret = it.secret;
  return use(wanted);
}

// Tells what was learnt, if the caller wants it.
static weft_code told(const weft::Result<weft::Connection>& made, weft_connection* connection) {
  if (!made) return failed(made.error());
  if (connection == nullptr) return WEFT_OK;
  weft_connection it{};
  it.peer_gid = weft::c::gid_of(made->peer_gid);
  it.peer_qpn = made->peer_qpn.value;
  it.path_mtu = made->path_mtu;
  it.private_size = std::min(made->peer_data.size(), sizeof it.private_data);
  std::memcpy(it.private_data, made->peer_data.data(), it.private_size);
  return weft::c::fill(connection, it, "weft_connection");
}

// Before a connection is made, not after it.
static weft_code check_room(const weft_connection* connection) {
  if (connection == nullptr || connection->size == sizeof *connection) return WEFT_OK;
  if (connection->size > sizeof *connection && connection->size <= weft::c::kLongestStructure)
    return WEFT_OK;
  return failed(weft::Code::invalid_argument, "weft_connection: its member size is " +
                                                  std::to_string(connection->size) +
                                                  ": set it to sizeof(weft_connection)");
}

weft_code weft_connect(const char* address, const weft_qp* qp, const weft_connect_options* options,
                       weft_connection* connection) {
  return call({{"address", address}, {"qp", qp}}, [&] {
    if (const weft_code bad = check_room(connection); bad != WEFT_OK) return bad;
    return with(options, [&](const weft::ConnectOptions& wanted) {
      return told(weft::connect(address, qp->it, wanted), connection);
    });
  });
}

weft_code weft_listener_create(const char* address, weft_listener** listener) {
  return call({{"listener", listener}}, [&] {
    return weft::c::made(weft::Listener::listen(address != nullptr ? address : ""), listener);
  });
}

void weft_listener_destroy(weft_listener* listener) { delete listener; }

uint16_t weft_listener_port(const weft_listener* listener) {
  return listener != nullptr ? listener->it.port() : uint16_t{0};
}
int weft_listener_fd(const weft_listener* listener) {
  return listener != nullptr ? listener->it.fd() : 0;
}

weft_code weft_listener_accept(weft_listener* listener, const weft_qp* qp,
                               const weft_connect_options* options, weft_connection* connection) {
  return call({{"listener", listener}, {"qp", qp}}, [&] {
    if (const weft_code bad = check_room(connection); bad != WEFT_OK) return bad;
    return with(options, [&](const weft::ConnectOptions& wanted) {
      return told(listener->it.accept(qp->it, wanted), connection);
    });
  });
}

weft_code weft_connector_start(const char* address, const weft_qp* qp,
                               const weft_connect_options* options, weft_connector** connector) {
  return call({{"address", address}, {"qp", qp}, {"connector", connector}}, [&] {
    return with(options, [&](const weft::ConnectOptions& wanted) {
      return weft::c::made(weft::Connector::start(address, qp->it, wanted), connector);
    });
  });
}

weft_code weft_listener_try_accept(weft_listener* listener, const weft_qp* qp,
                                   const weft_connect_options* options,
                                   weft_connector** connector) {
  return call({{"listener", listener}, {"qp", qp}, {"connector", connector}}, [&] {
    return with(options, [&](const weft::ConnectOptions& wanted) {
      return weft::c::made(listener->it.try_accept(qp->it, wanted), connector);
    });
  });
}

int weft_connector_fd(const weft_connector* connector) {
  return connector != nullptr ? connector->it.fd() : 0;
}
short weft_connector_poll_events(const weft_connector* connector) {
  return connector != nullptr ? connector->it.poll_events() : short{0};
}

weft_code weft_connector_advance(weft_connector* connector, weft_connection* connection) {
  return call({{"connector", connector}}, [&] {
    if (const weft_code bad = check_room(connection); bad != WEFT_OK) return bad;
    return told(connector->it.advance(), connection);
  });
}

void weft_connector_destroy(weft_connector* connector) { delete connector; }
