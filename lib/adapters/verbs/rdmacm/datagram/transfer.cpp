// SPDX-License-Identifier: BSD-3-Clause
// Sending and receiving datagrams; see socket.hpp.
#include "lib/adapters/verbs/rdmacm/datagram/transfer.hpp"

#include <endian.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/spin.hpp"

namespace weft::rdmacm::datagram {

namespace {

constexpr uint32_t kGrh = sizeof(ibv_grh);
constexpr uint64_t kIsSend = 1ull << 32;  // of ibv_wc::wr_id; the slot is below
constexpr int kLongestSleepMs = 10;       // another thread may take the event that this one awaits
constexpr size_t kMostPeers = 4096;

// Before each datagram.
struct Header {
  uint8_t version = 1;
  uint8_t reserved = 0;
  uint16_t port = 0;  // big-endian
  uint8_t address[16] = {};
};
static_assert(sizeof(Header) == 20);

std::byte* slot_of(Socket& s, uint32_t slot) {
  return s.memory.data() + size_t{slot} * s.slot_size;
}

bool post_receive(Socket& s, uint32_t slot) {
  ibv_sge sge{.addr = reinterpret_cast<uint64_t>(slot_of(s, slot)),
              .length = s.slot_size,
              .lkey = s.region->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return ibv_post_recv(s.qp, &wr, &bad) == 0;
}

bool move_to_rts(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = RDMA_UDP_QKEY;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) != 0)
    return false;
  attr.qp_state = IBV_QPS_RTR;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0) return false;
  attr.qp_state = IBV_QPS_RTS;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0;
}

bool make_queue_pair(Socket& s, ibv_pd* pd) {
  s.completions = ibv_create_comp_channel(s.verbs);
  if (s.completions == nullptr || fcntl(s.completions->fd, F_SETFL, O_NONBLOCK) != 0) return false;
  s.cq = ibv_create_cq(s.verbs, kReceives + kSends, nullptr, s.completions, 0);
  if (s.cq == nullptr) return false;
  ibv_port_attr port{};
  if (ibv_query_port(s.verbs, 1, &port) != 0) return false;
  s.slot_size = kGrh + (128u << port.active_mtu);
  s.memory.resize(size_t{kReceives + kSends} * s.slot_size);
  s.region = ibv_reg_mr(pd, s.memory.data(), s.memory.size(), int{IBV_ACCESS_LOCAL_WRITE});
  if (s.region == nullptr) return false;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = s.cq;
  init.qp_type = IBV_QPT_UD;
  init.cap = {.max_send_wr = kSends,
              .max_recv_wr = kReceives,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  s.qp = ibv_create_qp(pd, &init);
  if (s.qp == nullptr || !move_to_rts(s.qp)) return false;
  for (uint32_t slot = 0; slot < kReceives; ++slot)
    if (!post_receive(s, slot)) return false;
  for (uint32_t slot = kReceives; slot < kReceives + kSends; ++slot) s.free_sends.push_back(slot);
  return true;
}

const Header& header_in(Socket& s, uint32_t slot) {
  return *reinterpret_cast<const Header*>(slot_of(s, slot) + kGrh);
}

std::pair<Gid, uint16_t> sender_of(const Header& header) {
  Gid gid;
  std::memcpy(gid.bytes.data(), header.address, gid.bytes.size());
  return {gid, be16toh(header.port)};
}

// Who sent it can be answered from now on.
void on_received(Socket& s, ibv_wc& wc) {
  const auto slot = static_cast<uint32_t>(wc.wr_id);
  const bool valid = wc.status == IBV_WC_SUCCESS && wc.byte_len >= kGrh + sizeof(Header) &&
                     header_in(s, slot).version == 1;
  if (!valid) return (void)post_receive(s, slot);
  const auto sender = sender_of(header_in(s, slot));
  if (!s.peers.contains(sender) && s.peers.size() < kMostPeers) {
    auto* const grh = reinterpret_cast<ibv_grh*>(slot_of(s, slot));
    ibv_ah* const handle = ibv_create_ah_from_wc(s.qp->pd, &wc, grh, 1);
    if (handle != nullptr) s.peers[sender] = {handle, wc.src_qp, RDMA_UDP_QKEY};
  }
  s.inbox.push_back({slot, wc.byte_len - kGrh - static_cast<uint32_t>(sizeof(Header))});
}

void progress(Socket& s) {
  answer_all(s);
  ibv_wc wc[16];
  for (int n = s.cq != nullptr ? ibv_poll_cq(s.cq, 16, wc) : 0; n > 0;
       n = ibv_poll_cq(s.cq, 16, wc))
    for (int i = 0; i < n; ++i)
      if ((wc[i].wr_id & kIsSend) != 0)
        s.free_sends.push_back(static_cast<uint32_t>(wc[i].wr_id));
      else
        on_received(s, wc[i]);
}

// False: EAGAIN, or EINTR after a signal.
template <class Predicate>
bool wait_until(Socket& s, bool blocks, Predicate predicate) {
  for (bool polled = false;; polled = true) {
    progress(s);
    if (predicate()) return true;
    if (!blocks) return errno = EAGAIN, false;
    if (!polled && spin([&] { return progress(s), predicate(); })) return true;
    if (!arm(s)) continue;
    std::vector<pollfd> list;
    append_descriptors(s, list);
    s.lock.unlock();
    const bool interrupted =
        poll(list.data(), list.size(), kLongestSleepMs) < 0 && weft_verbs_signals_end_calls();
    s.lock.lock();
    if (interrupted) return errno = EINTR, false;
  }
}

// The port and, of a socket that is bound to any address, that of the device or of this host.
Header own_header(Socket& s) {
  Header header;
  const sockaddr_storage name = name_of(s);
  const auto* const bound = reinterpret_cast<const sockaddr*>(&name);
  header.port = htobe16(port_of(bound));
  Gid gid = gid_of(bound);
  if (is_any(bound)) {
    gid = weft_verbs_device(s.verbs).attributes().gid;
    if (!gid.is_ipv4() && bound->sa_family == AF_INET) gid = Gid::from_ipv4(127, 0, 0, 1);
  }
  std::memcpy(header.address, gid.bytes.data(), gid.bytes.size());
  return header;
}

}  // namespace

bool open_on(Socket& s, ibv_context* verbs, ibv_pd* pd) {
  if (s.verbs == verbs) return s.qp != nullptr;
  if (s.verbs != nullptr)
    return refuse(EXDEV, "rsocket", "the queue pair of the socket is on another device"), false;
  s.verbs = verbs;
  return make_queue_pair(s, pd);
}

ssize_t send(Socket& s, const void* data, size_t length, int flags, const sockaddr* to) {
  if (to == nullptr && s.destination) to = reinterpret_cast<const sockaddr*>(&*s.destination);
  if (to == nullptr) return refuse(EDESTADDRREQ, "rsend", "the socket is not connected");
  if (!is_ip(to)) return refuse(EINVAL, "rsendto", "the address is not of AF_INET or AF_INET6");
  progress(s);
  const Peer* const peer = peer_at(s, to);
  if (peer == nullptr) return -1;
  if (length > s.slot_size - kGrh - sizeof(Header))
    return refuse(EMSGSIZE, "rsendto", "a datagram must fit the path MTU");
  const bool blocks = !s.nonblocking && (flags & MSG_DONTWAIT) == 0;
  if (!wait_until(s, blocks, [&] { return !s.free_sends.empty(); })) return -1;
  const uint32_t slot = s.free_sends.back();
  const Header header = own_header(s);
  std::memcpy(slot_of(s, slot), &header, sizeof header);
  if (length != 0) std::memcpy(slot_of(s, slot) + sizeof header, data, length);
  ibv_sge sge{.addr = reinterpret_cast<uint64_t>(slot_of(s, slot)),
              .length = static_cast<uint32_t>(sizeof header + length),
              .lkey = s.region->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = kIsSend | slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud = {.ah = peer->handle, .remote_qpn = peer->qpn, .remote_qkey = peer->qkey};
  if (const int error = ibv_post_send(s.qp, &wr, &bad)) return errno = error, -1;
  s.free_sends.pop_back();
  return static_cast<ssize_t>(length);
}

ssize_t receive(Socket& s, void* data, size_t length, int flags, sockaddr_storage* from) {
  if (!bind_to_any(s)) return -1;
  const bool blocks = !s.nonblocking && (flags & MSG_DONTWAIT) == 0;
  if (!wait_until(s, blocks, [&] { return !s.inbox.empty(); })) return -1;
  const Received next = s.inbox.front();
  const size_t part = std::min<size_t>(length, next.length);
  if (part != 0) std::memcpy(data, slot_of(s, next.slot) + kGrh + sizeof(Header), part);
  const auto [gid, port] = sender_of(header_in(s, next.slot));
  if (from != nullptr) set_address(*from, gid, port);
  if ((flags & MSG_PEEK) != 0) return static_cast<ssize_t>(part);
  s.inbox.pop_front();
  (void)post_receive(s, next.slot);
  return static_cast<ssize_t>((flags & MSG_TRUNC) != 0 ? next.length : part);
}

short events_of(Socket& s, short wanted) {
  progress(s);
  int found = 0;
  if (!s.inbox.empty()) found |= POLLIN;
  if (s.qp == nullptr || !s.free_sends.empty()) found |= POLLOUT;
  return static_cast<short>(found & wanted);
}

bool arm(Socket& s) {
  if (s.cq == nullptr) return true;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(s.completions, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
  if (ibv_req_notify_cq(s.cq, 0) != 0) return false;
  const size_t received = s.inbox.size(), free = s.free_sends.size();
  progress(s);
  return s.inbox.size() == received && s.free_sends.size() == free;
}

void append_descriptors(const Socket& s, std::vector<pollfd>& list) {
  list.push_back({s.channel->fd, POLLIN, 0});
  if (s.completions != nullptr) list.push_back({s.completions->fd, POLLIN, 0});
}

}  // namespace weft::rdmacm::datagram
