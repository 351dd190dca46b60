// SPDX-License-Identifier: BSD-3-Clause
// A datagram rsocket: a UD queue pair behind a port of RDMA_PS_UDP. A sender to the port asks for
// its queue pair once (SIDR); a header before each datagram says the sender's address and port,
// and by it the receiver answers without asking. The protocol is weft's own: both ends are weft's.
//
// Threads: `lock` is held by each call, and released while it sleeps.
#pragma once

#include <poll.h>
#include <rdma/rdma_cma.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "weft/types.hpp"

namespace weft::rdmacm::datagram {

inline constexpr uint32_t kReceives = 256, kSends = 64;

// Where a peer's queue pair is.
struct Peer {
  ibv_ah* handle = nullptr;
  uint32_t qpn = 0, qkey = 0;
};

// A datagram that the program has not taken.
struct Received {
  uint32_t slot, length;
};

struct Socket {
  ~Socket();

  std::mutex lock;
  bool nonblocking = false;
  int descriptor_flags = 0;               // FD_CLOEXEC, as the program has set it
  rdma_event_channel* channel = nullptr;  // its descriptor names the socket
  rdma_cm_id* id = nullptr;               // of the port; listens once it is bound
  bool bound = false;
  std::optional<sockaddr_storage> destination;  // of rconnect()

  // On the first device that is used; null before.
  ibv_context* verbs = nullptr;
  ibv_comp_channel* completions = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* region = nullptr;
  std::vector<std::byte> memory;  // kReceives slots, then kSends
  uint32_t slot_size = 0;
  std::map<std::pair<Gid, uint16_t>, Peer> peers;  // by address and port
  std::deque<Received> inbox;
  std::vector<uint32_t> free_sends;
};

std::shared_ptr<Socket> find(int fd);
bool is_datagram(int fd);
// The descriptor of a new socket; -1: errno says why.
int create(bool nonblocking);
// No effect on other descriptors. False: it is none.
bool close(int fd);

int bind(Socket& socket, const sockaddr* address);
int connect(Socket& socket, const sockaddr* address);
// `to`: null is that of connect().
ssize_t send(Socket& socket, const void* data, size_t length, int flags, const sockaddr* to);
// `from`: null, or set to the sender's address.
ssize_t receive(Socket& socket, void* data, size_t length, int flags, sockaddr_storage* from);
sockaddr_storage name_of(Socket& socket);

// For rpoll(): handles what has arrived; those of `wanted` that hold.
short events_of(Socket& socket, short wanted);
// Its descriptors are readable when there is something to do. False: there is already.
bool arm(Socket& socket);
void append_descriptors(const Socket& socket, std::vector<pollfd>& list);

}  // namespace weft::rdmacm::datagram
