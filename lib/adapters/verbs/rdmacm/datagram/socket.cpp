// SPDX-License-Identifier: BSD-3-Clause
// The datagram rsockets of the process: creating, binding, and whom they know. See socket.hpp.
#include "lib/adapters/verbs/rdmacm/datagram/socket.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/datagram/transfer.hpp"

namespace weft::rdmacm::datagram {

namespace {

constexpr int kResolveTimeoutMs = 2000;

struct Sockets {
  std::mutex lock;
  std::unordered_map<int, std::shared_ptr<Socket>> all;
};

Sockets& sockets() {
  static auto& sockets = *new Sockets;  // never destroyed: programs close sockets in exit()
  return sockets;
}

// Answers who asks for the queue pair of the port.
void answer(Socket& s, rdma_cm_event& event) {
  rdma_cm_id* const asker = event.id;
  rdma_conn_param param{};
  const bool usable = asker->verbs != nullptr && open_on(s, asker->verbs, asker->pd);
  if (usable) param.qp_num = s.qp->qp_num;
  (void)(usable ? rdma_accept(asker, &param) : rdma_reject(asker, nullptr, 0));
  (void)rdma_ack_cm_event(&event);
  (void)rdma_destroy_id(asker);
}

// Asks for the queue pair at an address; blocks for the answer. Null: errno says why.
const Peer* ask(Socket& s, const sockaddr* to, const std::pair<Gid, uint16_t>& key) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_UDP) != 0) return nullptr;
  rdma_conn_param param{};
  Peer found;
  const bool answered =
      rdma_resolve_addr(id, nullptr, const_cast<sockaddr*>(to), kResolveTimeoutMs) == 0 &&
      rdma_resolve_route(id, kResolveTimeoutMs) == 0 && open_on(s, id->verbs, id->pd) &&
      rdma_connect(id, &param) == 0 && id->event != nullptr;
  if (answered) {
    rdma_ud_param& ud = id->event->param.ud;
    found = {ibv_create_ah(s.qp->pd, &ud.ah_attr), ud.qp_num, ud.qkey};
  }
  // No one listens: the status is that of the SIDR_REP, not an errno.
  const bool refused = !answered && id->event != nullptr &&
                       id->event->event == RDMA_CM_EVENT_UNREACHABLE && id->event->status > 0;
  const int error = refused ? ECONNREFUSED : errno;
  (void)rdma_destroy_id(id);
  errno = error;
  if (found.handle == nullptr) return nullptr;
  return &(s.peers[key] = found);
}

}  // namespace

Socket::~Socket() {
  for (const auto& [key, peer] : peers) (void)ibv_destroy_ah(peer.handle);
  if (qp != nullptr) (void)ibv_destroy_qp(qp);
  if (cq != nullptr) (void)ibv_destroy_cq(cq);
  if (completions != nullptr) (void)ibv_destroy_comp_channel(completions);
  if (region != nullptr) (void)ibv_dereg_mr(region);
  if (id != nullptr) (void)rdma_destroy_id(id);
  if (channel != nullptr) rdma_destroy_event_channel(channel);
}

std::shared_ptr<Socket> find(int fd) {
  Sockets& known = sockets();
  const std::lock_guard hold(known.lock);
  const auto found = known.all.find(fd);
  return found != known.all.end() ? found->second : nullptr;
}

bool is_datagram(int fd) { return find(fd) != nullptr; }

int create(bool nonblocking) {
  const auto made = std::make_shared<Socket>();
  made->channel = rdma_create_event_channel();
  if (made->channel == nullptr || fcntl(made->channel->fd, F_SETFL, O_NONBLOCK) != 0 ||
      rdma_create_id(made->channel, &made->id, made.get(), RDMA_PS_UDP) != 0)
    return -1;
  made->nonblocking = nonblocking;
  Sockets& known = sockets();
  const std::lock_guard hold(known.lock);
  known.all[made->channel->fd] = made;
  return made->channel->fd;
}

bool close(int fd) {
  std::shared_ptr<Socket> last;  // destroyed without the lock
  Sockets& known = sockets();
  const std::lock_guard hold(known.lock);
  const auto found = known.all.find(fd);
  if (found == known.all.end()) return false;
  last = std::move(found->second);
  known.all.erase(found);
  return true;
}

int bind(Socket& s, const sockaddr* address) {
  if (s.bound) return refuse(EINVAL, "rbind", "the socket is bound already");
  if (rdma_bind_addr(s.id, const_cast<sockaddr*>(address)) != 0 ||
      rdma_listen(s.id, static_cast<int>(kReceives)) != 0)
    return -1;
  s.bound = true;
  return 0;
}

bool bind_to_any(Socket& s) {
  if (s.bound) return true;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  return bind(s, reinterpret_cast<const sockaddr*>(&any)) == 0;
}

int connect(Socket& s, const sockaddr* address) {
  if (!is_ip(address)) return refuse(EINVAL, "rconnect", "the address is not of AF_INET, AF_INET6");
  s.destination.emplace();
  std::memcpy(&*s.destination, address, length_of(address));
  return peer_at(s, address) != nullptr ? 0 : -1;
}

const Peer* peer_at(Socket& s, const sockaddr* address) {
  const std::pair key(gid_of(address), port_of(address));
  const auto found = s.peers.find(key);
  if (found != s.peers.end()) return &found->second;
  return bind_to_any(s) ? ask(s, address, key) : nullptr;
}

void answer_all(Socket& s) {
  rdma_cm_event* event = nullptr;
  while (s.bound && rdma_get_cm_event(s.channel, &event) == 0)
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
      answer(s, *event);
    else
      (void)rdma_ack_cm_event(event);
}

sockaddr_storage name_of(Socket& s) {
  sockaddr_storage name{};
  const sockaddr* const bound = rdma_get_local_addr(s.id);
  if (s.bound) std::memcpy(&name, bound, length_of(bound));
  return name;
}

}  // namespace weft::rdmacm::datagram
