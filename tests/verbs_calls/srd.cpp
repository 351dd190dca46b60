// SPDX-License-Identifier: BSD-3-Clause
// SRD queue pairs by efadv.h: what a program of EFAs finds, each operation with its data, and
// refusals.
#include <arpa/inet.h>
#include <infiniband/efadv.h>

#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/ends.hpp"

namespace {

constexpr uint64_t kOperations =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr uint32_t kImm = 0x01020304;
constexpr size_t kPeer = 4096;  // where the memory of the peer begins

ibv_qp_init_attr_ex attributes(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 2,
              .max_recv_sge = 2,
              .max_inline_data = 32};
  attr.qp_type = IBV_QPT_DRIVER;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd;
  attr.send_ops_flags = kOperations;
  return attr;
}

void move_to_rts(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQkey;
  constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  CHECK_ERROR(EINVAL, ibv_modify_qp(qp, &attr, kToInit));
  CHECK_ERROR(EINVAL, ibv_modify_qp(qp, &attr, kToInit | IBV_QP_QKEY | IBV_QP_AV));
  CHECK_ERROR(0, ibv_modify_qp(qp, &attr, kToInit | IBV_QP_QKEY));
  attr.qp_state = IBV_QPS_RTR;
  CHECK_ERROR(0, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
  attr.qp_state = IBV_QPS_RTS;
  CHECK_ERROR(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
  CHECK_ERROR(0, ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

struct SrdEnds {
  ibv_context* context = open_device();
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cqs[2] = {ibv_create_cq(context, 32, nullptr, nullptr, 0),
                    ibv_create_cq(context, 32, nullptr, nullptr, 0)};
  ibv_qp* qps[2] = {};
  ibv_qp* spare = nullptr;
  std::vector<char> memory = std::vector<char>(8192);
  ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(),
                          kAllAccess & ~static_cast<unsigned>(IBV_ACCESS_MW_BIND));
  ibv_ah_attr address = own_address(context);
  ibv_ah* ah = ibv_create_ah(pd, &address);

  SrdEnds() {
    REQUIRE(pd != nullptr && mr != nullptr && ah != nullptr);
    for (int i = 0; i < 2; ++i) {
      ibv_qp_init_attr_ex attr = attributes(pd, cqs[i]);
      efadv_qp_init_attr efa{};
      qps[i] = efadv_create_qp_ex(context, &attr, &efa, sizeof efa);
      REQUIRE(qps[i] != nullptr);
      CHECK(qps[i]->qp_type == IBV_QPT_DRIVER && attr.cap.max_inline_data >= 32);
      move_to_rts(qps[i]);
    }
  }
  ~SrdEnds() {
    for (int i = 0; i < 2; ++i) {
      CHECK(ibv_destroy_qp(qps[i]) == 0);
      CHECK(ibv_destroy_cq(cqs[i]) == 0);
    }
    CHECK(ibv_destroy_ah(ah) == 0);
    CHECK(ibv_dereg_mr(mr) == 0);
    CHECK(ibv_dealloc_pd(pd) == 0);
    CHECK(ibv_close_device(context) == 0);
  }
  uint64_t at(size_t offset) { return reinterpret_cast<uintptr_t>(memory.data() + offset); }

  // Posts what `begin` sets up, from or into the first `length` bytes, to the other queue pair.
  template <class Begin>
  ibv_wc request(uint32_t length, Begin begin) {
    ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qps[0]);
    REQUIRE(ex != nullptr);
    ibv_wr_start(ex);
    ex->wr_id = 5;
    ex->wr_flags = IBV_SEND_SIGNALED;
    begin(ex);
    ibv_wr_set_ud_addr(ex, ah, qps[1]->qp_num, kQkey);
    ibv_wr_set_sge(ex, mr->lkey, at(0), length);
    CHECK_ERROR(0, ibv_wr_complete(ex));
    const ibv_wc wc = wait_for(cqs[0]);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 5 && wc.qp_num == qps[0]->qp_num);
    return wc;
  }
  void receive() {
    ibv_sge sge{.addr = at(kPeer), .length = 4096, .lkey = mr->lkey};
    ibv_recv_wr wr{.wr_id = 9, .next = nullptr, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
    CHECK_ERROR(0, ibv_post_recv(qps[1], &wr, &bad));
  }
  void fill(int seed) {
    for (size_t i = 0; i < kPeer; ++i) memory[i] = static_cast<char>(seed + static_cast<int>(i));
    std::memset(&memory[kPeer], 0, memory.size() - kPeer);
  }
  bool arrived(size_t length) { return std::memcmp(&memory[0], &memory[kPeer], length) == 0; }
};

void check_operations(SrdEnds& ends) {
  ends.fill(1);
  ends.receive();
  CHECK(ends.request(3000, [](ibv_qp_ex* ex) { ibv_wr_send_imm(ex, htonl(kImm)); }).opcode ==
        IBV_WC_SEND);
  const ibv_wc received = wait_for(ends.cqs[1]);
  CHECK(received.opcode == IBV_WC_RECV && received.byte_len == 3000);
  CHECK((received.wc_flags & IBV_WC_WITH_IMM) != 0 && ntohl(received.imm_data) == kImm);
  CHECK(received.src_qp == ends.qps[0]->qp_num && ends.arrived(3000));

  ends.fill(2);
  CHECK(ends.request(4000,
                     [&](ibv_qp_ex* ex) { ibv_wr_rdma_write(ex, ends.mr->rkey, ends.at(kPeer)); })
            .opcode == IBV_WC_RDMA_WRITE);
  CHECK(ends.arrived(4000));

  ends.fill(3);
  std::memset(&ends.memory[kPeer], 77, 4096);
  CHECK(ends.request(4000,
                     [&](ibv_qp_ex* ex) { ibv_wr_rdma_read(ex, ends.mr->rkey, ends.at(kPeer)); })
            .opcode == IBV_WC_RDMA_READ);
  CHECK(ends.arrived(4000));

  uint64_t value = 41;
  std::memcpy(&ends.memory[kPeer], &value, sizeof value);
  ends.request(
      8, [&](ibv_qp_ex* ex) { ibv_wr_atomic_fetch_add(ex, ends.mr->rkey, ends.at(kPeer), 1); });
  std::memcpy(&value, &ends.memory[kPeer], sizeof value);
  CHECK(value == 42 && ends.memory[0] == 41);
}

// ibv_post_send has room for an address beside SENDs only.
void check_post_send(SrdEnds& ends) {
  ends.fill(4);
  ends.receive();
  ibv_sge sge{.addr = ends.at(0), .length = 100, .lkey = ends.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud = {.ah = ends.ah, .remote_qpn = ends.qps[1]->qp_num, .remote_qkey = kQkey};
  CHECK_ERROR(0, ibv_post_send(ends.qps[0], &wr, &bad));
  CHECK(wait_for(ends.cqs[0]).status == IBV_WC_SUCCESS);
  CHECK(wait_for(ends.cqs[1]).byte_len == 100 && ends.arrived(100));
  wr.opcode = IBV_WR_RDMA_READ;
  CHECK_ERROR(EINVAL, ibv_post_send(ends.qps[0], &wr, &bad));
  CHECK(bad == &wr);
}

void check_queries(SrdEnds& ends) {
  ibv_device_attr device;
  CHECK_ERROR(0, ibv_query_device(ends.context, &device));
  CHECK(device.vendor_id == 0x1D0F && device.vendor_part_id == 0xEFA0);
  efadv_device_attr attr;
  std::memset(&attr, 0xFF, sizeof attr);
  CHECK_ERROR(0, efadv_query_device(ends.context, &attr, sizeof attr));
  CHECK(attr.comp_mask == 0 && (attr.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ) != 0);
  CHECK(attr.max_sq_wr == static_cast<uint32_t>(device.max_qp_wr) && attr.max_rdma_size != 0);
  CHECK_ERROR(EINVAL, efadv_query_device(ends.context, &attr, 8));
  efadv_ah_attr first{}, second{};
  ibv_ah* const other = ibv_create_ah(ends.pd, &ends.address);
  CHECK_ERROR(0, efadv_query_ah(ends.ah, &first, sizeof first));
  CHECK_ERROR(0, efadv_query_ah(other, &second, sizeof second));
  CHECK(first.ahn != 0 && first.ahn != second.ahn);
  CHECK_ERROR(0, ibv_destroy_ah(other));
}

void check_refusals(SrdEnds& ends) {
  efadv_qp_init_attr efa{};
  const auto create = [&](auto change) {
    ibv_qp_init_attr_ex attr = attributes(ends.pd, ends.cqs[0]);
    change(attr);
    return efadv_create_qp_ex(ends.context, &attr, &efa, sizeof efa);
  };
  CHECK_REFUSED(EINVAL, create([](auto& attr) { attr.qp_type = IBV_QPT_RC; }));
  CHECK_REFUSED(EINVAL, create([](auto& attr) { attr.send_cq = nullptr; }));
  CHECK_REFUSED(EOPNOTSUPP, create([](auto& attr) { attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD; }));
  CHECK_REFUSED(EOPNOTSUPP,
                create([](auto& attr) { attr.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_INV; }));
  efa.driver_qp_type = 1;
  CHECK_REFUSED(EOPNOTSUPP, create([](auto&) {}));
  ibv_qp_init_attr_ex attr = attributes(ends.pd, ends.cqs[0]);
  CHECK_REFUSED(EOPNOTSUPP, ibv_create_qp_ex(ends.context, &attr));  // libefa has it
  ibv_qp_init_attr old{};
  old.send_cq = old.recv_cq = ends.cqs[0];
  old.cap = attr.cap;
  old.qp_type = IBV_QPT_DRIVER;
  ibv_qp* const qp = efadv_create_driver_qp(ends.pd, &old, EFADV_QP_DRIVER_TYPE_SRD);
  REQUIRE(qp != nullptr);
  CHECK(ibv_qp_to_qp_ex(qp) == nullptr);
  CHECK_ERROR(0, ibv_destroy_qp(qp));
  efadv_cq_init_attr wanted{};
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 4;
  wanted.wc_flags = EFADV_WC_EX_WITH_SGID | 2;
  CHECK_REFUSED(EOPNOTSUPP, efadv_create_cq(ends.context, &cq_attr, &wanted, sizeof wanted));
}

// A receive says whose it is.
void check_senders(SrdEnds& ends) {
  efadv_cq_init_attr wanted{};
  wanted.wc_flags = EFADV_WC_EX_WITH_SGID;
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 4;
  cq_attr.wc_flags = IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SRC_QP;
  ibv_cq_ex* const cq = efadv_create_cq(ends.context, &cq_attr, &wanted, sizeof wanted);
  REQUIRE(cq != nullptr);
  efadv_qp_init_attr efa{};
  ibv_qp_init_attr_ex attr = attributes(ends.pd, ibv_cq_ex_to_cq(cq));
  std::swap(ends.qps[1], ends.spare);
  ends.qps[1] = efadv_create_qp_ex(ends.context, &attr, &efa, sizeof efa);
  REQUIRE(ends.qps[1] != nullptr);
  move_to_rts(ends.qps[1]);
  ends.receive();
  ends.request(10, [](ibv_qp_ex* ex) { ibv_wr_send(ex); });
  ibv_poll_cq_attr poll{};
  const std::time_t until = std::time(nullptr) + 20;
  while (ibv_start_poll(cq, &poll) != 0) REQUIRE(std::time(nullptr) < until);
  ibv_gid gid{};
  CHECK(efadv_wc_read_sgid(efadv_cq_from_ibv_cq_ex(cq), &gid) == 0);
  CHECK(std::memcmp(&gid, &ends.address.grh.dgid, sizeof gid) == 0);
  CHECK(ibv_wc_read_slid(cq) == 0xFFFF && ibv_wc_read_src_qp(cq) == ends.qps[0]->qp_num);
  ibv_end_poll(cq);
  CHECK_ERROR(0, ibv_destroy_qp(ends.qps[1]));
  std::swap(ends.qps[1], ends.spare);
  CHECK_ERROR(0, ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

}  // namespace

void check_srd() {
  SrdEnds ends;
  check_queries(ends);
  check_operations(ends);
  check_post_send(ends);
  check_refusals(ends);
  check_senders(ends);
}
