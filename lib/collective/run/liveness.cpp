// SPDX-License-Identifier: BSD-3-Clause
// One socket for each peer; poll() finds those that are closed.
#include "lib/collective/run/liveness.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "lib/base/clock.hpp"
#include "lib/collective/bootstrap/store.hpp"

namespace weft::collective {
namespace {

Result<base::SocketAddress> address_of(const std::string& host, uint16_t port) {
  Result<base::HostPort> where = base::parse_host_port(host, port);
  if (!where) return where.error();
  Result<std::vector<base::SocketAddress>> found = base::resolve(*where, false);
  if (!found) return found.error();
  return found->front();
}

}  // namespace

Result<Liveness> Liveness::listen(const std::string& host) {
  Result<base::SocketAddress> address = address_of(host, 0);
  if (!address) return address.error();
  Result<base::Socket> listener = base::start_listen(*address);
  if (!listener) return listener.error();
  Liveness liveness;
  liveness.port_ = base::bound_port(*listener);
  liveness.listener_ = std::move(*listener);
  return liveness;
}

Result<void> Liveness::connect(uint32_t peer, const std::string& host, uint16_t port, uint32_t rank,
                               Duration limit) {
  Result<base::SocketAddress> address = address_of(host, port);
  if (!address) return address.error();
  Result<base::Socket> socket = base::connect_by(*address, base::wall_now() + limit);
  if (!socket) return socket.error();
  if (::send(socket->fd(), &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank)
    return system_error("cannot reach rank " + std::to_string(peer) + " at " + host);
  peers_.push_back({std::move(*socket), peer});
  return {};
}

Result<void> Liveness::accept(uint32_t count, Duration limit) {
  const Instant deadline = base::wall_now() + limit;
  for (uint32_t i = 0; i < count; ++i) {
    const auto missing = [](const Error& error) {
      return Error{Code::timed_out,
                   "a rank has connected its queue pair but not its liveness socket (" +
                       error.message + ")"};
    };
    Result<base::Socket> socket = base::accept_by(listener_, deadline);
    if (!socket) return missing(socket.error());
    Peer connected{std::move(*socket), 0};
    std::string rank;
    while (rank.size() < sizeof connected.rank)
      if (Result<void> came = base::receive_by(connected.socket, rank,
                                               sizeof connected.rank - rank.size(), deadline);
          !came)
        return missing(came.error());
    std::memcpy(&connected.rank, rank.data(), sizeof connected.rank);
    peers_.push_back(std::move(connected));
  }
  listener_.close();
  return {};
}

std::vector<uint32_t> Liveness::exited_peers() {
  std::vector<uint32_t> ranks;
  std::vector<pollfd> wanted;
  for (const Peer& peer : peers_) wanted.push_back({peer.socket.fd(), POLLIN, 0});
  if (wanted.empty() || poll(wanted.data(), wanted.size(), 0) <= 0) return ranks;
  for (size_t i = peers_.size(); i-- > 0;) {
    if (wanted[i].revents == 0) continue;  // peers send nothing: readable means closed
    ranks.push_back(peers_[i].rank);
    peers_.erase(peers_.begin() + static_cast<ptrdiff_t>(i));
  }
  return ranks;
}

}  // namespace weft::collective
