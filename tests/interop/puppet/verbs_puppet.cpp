// SPDX-License-Identifier: BSD-3-Clause
// The end that is the kernel: `verbs_puppet TCP_PORT`, any device of libibverbs, rxe0 say. It runs
// in the guest and sleeps while it waits, for the guest has one processor.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "tools/script/responder.hpp"

namespace {

using namespace weft::responder;

[[noreturn]] void fail(const std::string& what, int error = errno) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

template <class T>
T* need(T* pointer, const char* what) {
  if (pointer == nullptr) fail(what);
  return pointer;
}

constexpr int kAllRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
// Of a receive that revoked a key. rxe writes the kernel's number, which is libibverbs' for
// another.
constexpr unsigned kRevoked = IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK;
constexpr int kBind_ms = 1000;

ibv_wr_opcode opcode(Operation operation) {
  switch (operation) {
    case Operation::send:
      return IBV_WR_SEND;
    case Operation::send_with_imm:
      return IBV_WR_SEND_WITH_IMM;
    case Operation::write:
      return IBV_WR_RDMA_WRITE;
    case Operation::write_with_imm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Operation::read:
      return IBV_WR_RDMA_READ;
    case Operation::compare_swap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Operation::fetch_add:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Operation::send_with_invalidate:
      return IBV_WR_SEND_WITH_INV;
  }
  std::abort();
}

// As weft::name spells them.
std::string status_name(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local_length_error";
    case IBV_WC_LOC_QP_OP_ERR:
      return "local_qp_operation_error";
    case IBV_WC_LOC_PROT_ERR:
      return "local_protection_error";
    case IBV_WC_WR_FLUSH_ERR:
      return "flushed";
    case IBV_WC_BAD_RESP_ERR:
      return "bad_response";
    case IBV_WC_LOC_ACCESS_ERR:
      return "local_access_error";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote_invalid_request";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote_access_error";
    case IBV_WC_REM_OP_ERR:
      return "remote_operation_error";
    case IBV_WC_RETRY_EXC_ERR:
      return "retry_exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "rnr_retry_exceeded";
    default:
      return "status_" + std::to_string(status);
  }
}

ibv_mtu mtu_code(uint32_t bytes) {
  int code = IBV_MTU_256;
  for (uint32_t size = 256; size < bytes; size *= 2) ++code;
  return static_cast<ibv_mtu>(code);
}

// In the ids of receives: the opcode of a completion with an error says nothing.
constexpr uint64_t kReceive = uint64_t{1} << 63;

class VerbsEndpoint final : public Endpoint {
 public:
  Target open(const std::string& device, std::span<std::byte> memory) override {
    close();
    const size_t at = device.find('@');
    const std::string name = device.substr(0, at);
    ibv_device** devices = need(ibv_get_device_list(nullptr), "no RDMA devices");
    for (ibv_device** each = devices; *each != nullptr && context_ == nullptr; ++each)
      if (name == ibv_get_device_name(*each)) context_ = ibv_open_device(*each);
    ibv_free_device_list(devices);
    need(context_, name.c_str());
    domain_ = need(ibv_alloc_pd(context_), "protection domain");
    region_ = need(ibv_reg_mr(domain_, memory.data(), memory.size(), kAllRights), "memory region");
    constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;  // a number: the macro mixes enumerations
    headers_ = need(ibv_reg_mr(domain_, header_, sizeof header_, kLocalWrite), "memory region");
    channel_ = need(ibv_create_comp_channel(context_), "completion channel");
    cq_ = need(ibv_create_cq(context_, 16384, nullptr, channel_, 0), "completion queue");
    return {find_gid(at == std::string::npos ? "" : device.substr(at + 1)), region_->rkey};
  }

  uint32_t make_qp(Service service, uint32_t depth, uint32_t access) override {
    constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    destroy_qp();
    while (next(0)) {
    }
    ibv_qp_init_attr init{};
    init.qp_type = kTypes[static_cast<size_t>(service)];
    init.send_cq = init.recv_cq = cq_;
    init.cap = {depth, depth, 1, 2, 0};
    init.sq_sig_all = 1;
    qp_ = need(ibv_create_qp(domain_, &init), "queue pair");
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = access;  // the numbers are those of weft::Access
    attributes.qkey = kQkey;
    modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                           (datagrams() ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    return qp_->qp_num;
  }

  void connect(const Route& route) override {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = mtu_code(route.mtu);
    attributes.dest_qp_num = route.qpn;
    attributes.rq_psn = route.peer_psn;
    attributes.max_dest_rd_atomic = route.max_rd;
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.sgid_index = gid_index_;
    attributes.ah_attr.grh.hop_limit = 64;
    const std::string v6 =
        route.gid.find(':') == std::string::npos ? "::ffff:" + route.gid : route.gid;
    if (inet_pton(AF_INET6, v6.c_str(), attributes.ah_attr.grh.dgid.raw) != 1)
      throw std::runtime_error("gid " + route.gid + "?");
    const bool reliable = qp_->qp_type == IBV_QPT_RC;
    if (datagrams()) {
      if (peer_ != nullptr) ibv_destroy_ah(peer_);
      peer_ = need(ibv_create_ah(domain_, &attributes.ah_attr), "address handle");
      peer_number_ = route.qpn;
    }
    modify(attributes, datagrams()
                           ? IBV_QP_STATE
                           : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN |
                                 (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = route.psn;
    attributes.timeout = route.timeout;
    attributes.retry_cnt = route.retry;
    attributes.rnr_retry = route.rnr_retry;
    attributes.max_rd_atomic = route.max_rd;
    modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN |
                           (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_MAX_QP_RD_ATOMIC
                                     : 0));
  }

  // The kernel gives rxe the frames of an IPv4 group only if a socket has joined it too.
  void attach(const std::string& group) override {
    in_addr v4{};
    if (inet_pton(AF_INET, group.c_str(), &v4) != 1)
      throw std::runtime_error("group " + group + "?");
    inet_pton(AF_INET6, ("::ffff:" + group).c_str(), group_.raw);
    ip_mreqn request{};
    request.imr_multiaddr = v4;
    request.imr_address = own_address_;
    group_socket_ = socket(AF_INET, SOCK_DGRAM, 0);
    if (setsockopt(group_socket_, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request) != 0)
      fail("IP_ADD_MEMBERSHIP", errno);
    if (const int error = ibv_attach_mcast(qp_, &group_, 0)) fail("attach_mcast", error);
  }

  uint32_t bind_window(std::byte* data, uint32_t length) override {
    free_window();
    window_ = need(ibv_alloc_mw(domain_, IBV_MW_TYPE_2), "memory window");
    ibv_send_wr work{};
    work.opcode = IBV_WR_BIND_MW;
    work.bind_mw.mw = window_;
    work.bind_mw.rkey = ibv_inc_rkey(window_->rkey);
    work.bind_mw.bind_info = {region_, reinterpret_cast<uintptr_t>(data), length,
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(qp_, &work, &bad)) fail("post_send", error);
    const std::optional<Done> done = next(kBind_ms);
    if (!done || done->status != "success") throw std::runtime_error("the window is not bound");
    return work.bind_mw.rkey;
  }

  void post(const Request& request) override {
    ibv_sge piece = sge(request.data, request.length);
    ibv_send_wr work{};
    work.wr_id = request.id;
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = opcode(request.operation);
    work.send_flags = IBV_SEND_SIGNALED;
    if (request.fence) work.send_flags |= IBV_SEND_FENCE;
    if (work.opcode == IBV_WR_SEND_WITH_INV)
      work.invalidate_rkey = request.invalidate;
    else
      work.imm_data = htonl(request.imm);
    if (work.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      work.wr.atomic = {request.remote_address, request.compare_add, request.swap, request.rkey};
    } else if (datagrams()) {
      work.wr.ud = {peer_, peer_number_, kQkey};
    } else {
      work.wr.rdma.remote_addr = request.remote_address;
      work.wr.rdma.rkey = request.rkey;
    }
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(qp_, &work, &bad)) fail("post_send", error);
  }

  void receive(uint64_t id, std::byte* data, uint32_t length) override {
    ibv_sge pieces[] = {{reinterpret_cast<uintptr_t>(header_), kNetworkHeader, headers_->lkey},
                        sge(data, length)};
    ibv_recv_wr work{id | kReceive, nullptr, datagrams() ? pieces : pieces + 1,
                     datagrams() ? 2 : 1};
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(qp_, &work, &bad)) fail("post_recv", error);
  }

  std::optional<Done> next(int limit_ms) override {
    ibv_wc done;
    if (ibv_poll_cq(cq_, 1, &done) == 0) {
      ibv_req_notify_cq(cq_, 0);
      if (ibv_poll_cq(cq_, 1, &done) == 0 && !sleep_and_poll(done, limit_ms)) return {};
    }
    const bool receive = (done.wr_id & kReceive) != 0;
    const uint32_t before = receive && datagrams() ? kNetworkHeader : 0;
    const bool revoked = receive && (done.wc_flags & kRevoked) != 0;
    return Done{receive,
                status_name(done.status),
                done.wr_id & ~kReceive,
                done.byte_len - before,
                revoked ? 0 : ntohl(done.imm_data),
                revoked ? done.invalidated_rkey : 0};
  }

 private:
  bool datagrams() const { return qp_ != nullptr && qp_->qp_type == IBV_QPT_UD; }

  // A device keeps a queue pair that is in a group.
  void destroy_qp() {
    if (group_socket_ >= 0) {
      ibv_detach_mcast(qp_, &group_, 0);
      ::close(group_socket_);
    }
    group_socket_ = -1;
    if (qp_ != nullptr) ibv_destroy_qp(qp_);
    qp_ = nullptr;
    free_window();
  }

  void free_window() {
    if (window_ != nullptr) ibv_dealloc_mw(window_);
    window_ = nullptr;
  }

  // What an open device holds; all of it again with the next one.
  void close() {
    destroy_qp();
    if (peer_ != nullptr) ibv_destroy_ah(peer_);
    if (cq_ != nullptr) ibv_destroy_cq(cq_);
    if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (headers_ != nullptr) ibv_dereg_mr(headers_);
    if (domain_ != nullptr) ibv_dealloc_pd(domain_);
    if (context_ != nullptr) ibv_close_device(context_);
    peer_ = nullptr;
    cq_ = nullptr;
    channel_ = nullptr;
    region_ = headers_ = nullptr;
    domain_ = nullptr;
    context_ = nullptr;
  }

  bool sleep_and_poll(ibv_wc& done, int limit_ms) {
    pollfd wait = {channel_->fd, POLLIN, 0};
    while (poll(&wait, 1, limit_ms) == 1) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      if (ibv_get_cq_event(channel_, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
      ibv_req_notify_cq(cq_, 0);
      if (ibv_poll_cq(cq_, 1, &done) == 1) return true;
    }
    return false;
  }

  // An address of the port; its index goes into every address vector.
  std::string find_gid(const std::string& wanted) {
    ibv_gid gid;
    for (gid_index_ = 0; ibv_query_gid(context_, 1, gid_index_, &gid) == 0; ++gid_index_) {
      char text[INET6_ADDRSTRLEN] = {};
      inet_ntop(AF_INET6, gid.raw, text, sizeof text);
      const bool v4 = std::strncmp(text, "::ffff:", 7) == 0;
      const char* const address = v4 ? text + 7 : text;
      if (wanted.empty() ? !v4 : wanted != address) continue;
      if (v4) inet_pton(AF_INET, address, &own_address_);
      return address;
    }
    throw std::runtime_error("the port has no address " + wanted);
  }

  void modify(ibv_qp_attr& attributes, int mask) {
    if (const int error = ibv_modify_qp(qp_, &attributes, mask)) fail("modify_qp", error);
  }

  ibv_sge sge(std::byte* data, uint32_t length) const {
    return {reinterpret_cast<uintptr_t>(data), length, region_->lkey};
  }

  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_mw* window_ = nullptr;
  std::byte header_[kNetworkHeader] = {};  // of the last datagram
  ibv_mr* headers_ = nullptr;
  ibv_ah* peer_ = nullptr;  // UD
  uint32_t peer_number_ = 0;
  uint8_t gid_index_ = 0;
  in_addr own_address_{};
  ibv_gid group_{};  // joined, with this socket
  int group_socket_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: verbs_puppet TCP_PORT   (tools/script/responder.hpp)\n");
    return 2;
  }
  VerbsEndpoint endpoint;
  return serve({.port = static_cast<uint16_t>(std::atoi(argv[1])), .shell = true, .once = true},
               endpoint);
}
