// SPDX-License-Identifier: BSD-3-Clause
// Refusals: errno of wrong arguments, EBUSY while children exist, EOPNOTSUPP for what no device in
// software can do; and rate limits, which they have.
#include <fcntl.h>
#include <infiniband/efadv.h>
#include <unistd.h>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/ends.hpp"

namespace {

// An address that no interface has: of documentation (RFC 3849, RFC 5737).
ibv_gid of_the_other_family(const ibv_gid& gid) {
  const bool is_ipv4 = gid.global.subnet_prefix == 0 && gid.raw[10] == 0xFF && gid.raw[11] == 0xFF;
  if (is_ipv4) return {.raw = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return {.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1}};
}

void wrong_arguments(Ends& ends) {
  ibv_context* context = ends.context;
  ibv_gid gid;
  uint16_t pkey = 0;
  ibv_port_attr port;
  CHECK_ERROR(EINVAL, ibv_query_port(context, 2, &port));
  CHECK(ibv_query_gid(context, 1, 10'000, &gid) == -1 && errno == EINVAL);
  CHECK(ibv_query_pkey(context, 1, 5, &pkey) == -1);
  CHECK(ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xFFFF);
  CHECK_REFUSED(EINVAL, ibv_create_cq(context, 0, nullptr, nullptr, 0));
  CHECK_REFUSED(EINVAL, ibv_create_cq(context, 1 << 30, nullptr, nullptr, 0));
  CHECK_REFUSED(EINVAL, ibv_create_cq(context, 8, nullptr, nullptr, context->num_comp_vectors));
  CHECK_ERROR(EINVAL, ibv_resize_cq(ends.a.cq, 0));
  CHECK_REFUSED(EINVAL, ibv_reg_mr(ends.pd, ends.at(0), 0, IBV_ACCESS_LOCAL_WRITE));
  CHECK_REFUSED(EINVAL, ibv_reg_mr(ends.pd, ends.at(0), 16, IBV_ACCESS_REMOTE_WRITE));
  CHECK_REFUSED(EFAULT, ibv_reg_mr(ends.pd, reinterpret_cast<void*>(4096), 16, 0));
  static const char read_only[16] = {};
  CHECK_REFUSED(EFAULT, ibv_reg_mr(ends.pd, const_cast<char*>(read_only), sizeof read_only,
                                   IBV_ACCESS_LOCAL_WRITE));
  ibv_ah_attr address = own_address(context);
  address.is_global = 0;  //= roce:C-AV-134
  CHECK_REFUSED(EINVAL, ibv_create_ah(ends.pd, &address));
  address = own_address(context);
  address.grh.sgid_index = 200;
  CHECK_REFUSED(EINVAL, ibv_create_ah(ends.pd, &address));
  CHECK_ERROR(EINVAL, ibv_attach_mcast(ends.a.qp, &address.grh.dgid, 0));
  address = own_address(context);
  address.grh.dgid = of_the_other_family(address.grh.dgid);
  CHECK_REFUSED(EINVAL, ibv_create_ah(ends.pd, &address));
}

void wrong_queue_pairs(Ends& ends) {
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  CHECK_REFUSED(EINVAL, ibv_create_qp(ends.pd, &attr));  // no completion queues
  attr.send_cq = attr.recv_cq = ends.a.cq;
  attr.cap.max_send_sge = 10'000;
  CHECK_REFUSED(EINVAL, ibv_create_qp(ends.pd, &attr));
  attr.cap.max_send_sge = 1;
  attr.qp_type = IBV_QPT_RAW_PACKET;
  CHECK_REFUSED(EOPNOTSUPP, ibv_create_qp(ends.pd, &attr));
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(ends.pd, &attr);
  REQUIRE(qp != nullptr);
  ibv_qp_attr change{};
  change.qp_state = IBV_QPS_RTR;
  CHECK_ERROR(EINVAL, ibv_modify_qp(qp, &change, IBV_QP_STATE));  // not from RESET
  change.qp_state = IBV_QPS_INIT;
  CHECK_ERROR(EINVAL, ibv_modify_qp(qp, &change, IBV_QP_STATE));  // attributes are missing
  change.port_num = 2;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
  CHECK_ERROR(EINVAL, ibv_modify_qp(qp, &change, kInit));
  change.port_num = 1;
  CHECK_ERROR(EINVAL, ibv_modify_qp(qp, &change, kInit | IBV_QP_QKEY));  // not of RC
  CHECK_ERROR(0, ibv_modify_qp(qp, &change, kInit));
  CHECK(qp->state == IBV_QPS_INIT);
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  CHECK_ERROR(EINVAL, ibv_post_send(qp, &wr, &bad));  // not in INIT
  CHECK(bad == &wr);
  ibv_qp_attr state{};
  ibv_qp_init_attr init{};
  CHECK_ERROR(0, ibv_query_qp(qp, &state, IBV_QP_STATE, &init));
  CHECK(state.qp_state == IBV_QPS_INIT && init.send_cq == ends.a.cq && init.qp_type == IBV_QPT_RC);
  CHECK_ERROR(0, ibv_destroy_qp(qp));
}

void full_queues(Ends& ends) {
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  int error = 0;
  for (int i = 0; error == 0 && i < 100'000; ++i) error = ibv_post_recv(ends.a.qp, &wr, &bad);
  CHECK(error == ENOMEM && bad == &wr);
  // A list stops at the first request that is wrong, and says which.
  ibv_sge entry = ends.sge(0, 8);
  ibv_send_wr second{};
  second.opcode = IBV_WR_TSO;
  ibv_send_wr first{};
  first.opcode = IBV_WR_RDMA_WRITE;
  first.send_flags = IBV_SEND_SIGNALED;
  first.wr.rdma = {.remote_addr = ends.address(64), .rkey = ends.mr->rkey};
  first.sg_list = &entry;
  first.num_sge = 1;
  first.next = &second;
  ibv_send_wr* bad_send = nullptr;
  CHECK_ERROR(EINVAL, ibv_post_send(ends.a.qp, &first, &bad_send));
  CHECK(bad_send == &second);
  CHECK(wait_for(ends.a.cq).status == IBV_WC_SUCCESS);
}

void children(Ends& ends) {
  CHECK_ERROR(EBUSY, ibv_dealloc_pd(ends.pd));
  CHECK_ERROR(EBUSY, ibv_destroy_cq(ends.a.cq));
  ibv_comp_channel* channel = ibv_create_comp_channel(ends.context);
  REQUIRE(channel != nullptr);
  ibv_cq* cq = ibv_create_cq(ends.context, 8, nullptr, channel, 0);
  REQUIRE(cq != nullptr);
  CHECK_ERROR(EBUSY, ibv_destroy_comp_channel(channel));
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {.max_wr = 8, .max_sge = 1};
  ibv_srq* srq = ibv_create_srq(ends.pd, &srq_attr);
  REQUIRE(srq != nullptr);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.srq = srq;
  attr.cap = {.max_send_wr = 1, .max_send_sge = 1};
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(ends.pd, &attr);
  REQUIRE(qp != nullptr);
  CHECK_ERROR(EBUSY, ibv_destroy_srq(srq));
  CHECK_ERROR(EBUSY, ibv_destroy_cq(cq));
  CHECK_ERROR(0, ibv_destroy_qp(qp));
  CHECK_ERROR(0, ibv_destroy_srq(srq));
  CHECK_ERROR(0, ibv_destroy_cq(cq));
  CHECK_ERROR(0, ibv_destroy_comp_channel(channel));
}

void domains(Ends& ends) {
  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(ends.context, &td_attr);
  REQUIRE(td != nullptr);
  ibv_parent_domain_init_attr parent_attr{};
  parent_attr.pd = ends.pd;
  parent_attr.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(ends.context, &parent_attr);
  REQUIRE(parent != nullptr);
  CHECK_ERROR(EBUSY, ibv_dealloc_td(td));
  CHECK_ERROR(0, ibv_dealloc_pd(parent));
  CHECK_ERROR(0, ibv_dealloc_td(td));
  parent_attr.td = nullptr;
  parent_attr.comp_mask = 1u << 2;  // ..._ALLOW_CC_UNPROTECTED_ALLOC of rdma-core 65
  CHECK_REFUSED(EOPNOTSUPP, ibv_alloc_parent_domain(ends.context, &parent_attr));
  parent_attr.comp_mask = 1u << 30;
  CHECK_REFUSED(EINVAL, ibv_alloc_parent_domain(ends.context, &parent_attr));
  ibv_xrcd_init_attr xrcd_attr{};
  xrcd_attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd_attr.fd = -1;
  CHECK_REFUSED(EINVAL, ibv_open_xrcd(ends.context, &xrcd_attr));
  xrcd_attr.oflags = O_CREAT;
  ibv_xrcd* xrcd = ibv_open_xrcd(ends.context, &xrcd_attr);
  REQUIRE(xrcd != nullptr);
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.xrcd = xrcd;
  ibv_qp* qp = ibv_create_qp_ex(ends.context, &attr);
  REQUIRE(qp != nullptr);
  CHECK_ERROR(EBUSY, ibv_close_xrcd(xrcd));
  CHECK_ERROR(0, ibv_destroy_qp(qp));
  CHECK_ERROR(0, ibv_close_xrcd(xrcd));
}

// An XRC target lives until the last of those who have opened it destroys it. Destroys `first`.
void targets_opened_twice(Ends& ends, ibv_qp* first, ibv_xrcd* xrcd) {
  to_init(first);
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD;
  attr.qp_num = first->qp_num;
  attr.xrcd = xrcd;
  attr.qp_type = IBV_QPT_XRC_RECV;
  CHECK_REFUSED(EINVAL, ibv_open_qp(ends.context, &attr));  // TYPE is missing
  attr.comp_mask |= IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT;
  attr.qp_context = &ends;
  attr.qp_num = ends.a.qp->qp_num;
  CHECK_REFUSED(EINVAL, ibv_open_qp(ends.context, &attr));  // not of the domain
  attr.qp_num = first->qp_num;
  ibv_qp* const second = ibv_open_qp(ends.context, &attr);
  REQUIRE(second != nullptr);
  CHECK(second->qp_num == first->qp_num && second->qp_context == &ends);
  CHECK(second->state == IBV_QPS_INIT);
  CHECK_ERROR(0, ibv_destroy_qp(first));
  to_rts(second, ends.a.qp->qp_num);
  ibv_qp* const third = ibv_open_qp(ends.context, &attr);
  REQUIRE(third != nullptr);
  CHECK(third->state == IBV_QPS_RTS);
  CHECK_ERROR(EBUSY, ibv_close_xrcd(xrcd));
  CHECK_ERROR(0, ibv_destroy_qp(third));
  CHECK_ERROR(0, ibv_destroy_qp(second));
  CHECK_REFUSED(EINVAL, ibv_open_qp(ends.context, &attr));
}

// Who opens the same file has the same domain: a queue of one takes messages for the other.
void domains_of_files(Ends& ends) {
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = open("/", O_RDONLY);
  REQUIRE(attr.fd >= 0);
  CHECK_REFUSED(EAGAIN, ibv_open_xrcd(ends.context, &attr));
  attr.oflags = O_CREAT;
  ibv_xrcd* first = ibv_open_xrcd(ends.context, &attr);
  REQUIRE(first != nullptr);
  attr.oflags = O_CREAT | O_EXCL;
  CHECK_REFUSED(EINVAL, ibv_open_xrcd(ends.context, &attr));
  attr.oflags = 0;
  ibv_xrcd* second = ibv_open_xrcd(ends.context, &attr);
  REQUIRE(second != nullptr);
  CHECK_ERROR(0, ibv_close_xrcd(first));
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  init.xrcd = second;
  ibv_qp* qp = ibv_create_qp_ex(ends.context, &init);
  REQUIRE(qp != nullptr);
  targets_opened_twice(ends, qp, second);
  CHECK_ERROR(0, ibv_close_xrcd(second));
  CHECK_REFUSED(EAGAIN, ibv_open_xrcd(ends.context, &attr));  // the last one has closed it
  close(attr.fd);
}

void not_in_software(Ends& ends) {
  CHECK_REFUSED(EOPNOTSUPP, ibv_import_device(0));
  CHECK_REFUSED(EOPNOTSUPP, ibv_import_pd(ends.context, 1));
  CHECK_REFUSED(EOPNOTSUPP, ibv_import_mr(ends.pd, 1));
  ibv_flow_attr flow{};
  CHECK_REFUSED(EOPNOTSUPP, ibv_create_flow(ends.a.qp, &flow));
  ibv_counters_init_attr counters{};
  CHECK_REFUSED(EOPNOTSUPP, ibv_create_counters(ends.context, &counters));
  //= roce:C-AV-132
  ibv_qp_attr path{};
  path.path_mig_state = IBV_MIG_REARM;
  CHECK_ERROR(EOPNOTSUPP, ibv_modify_qp(ends.a.qp, &path, IBV_QP_ALT_PATH));
  CHECK_ERROR(EOPNOTSUPP, ibv_modify_qp(ends.a.qp, &path, IBV_QP_PATH_MIG_STATE));
  efadv_device_attr efa{};
  CHECK_ERROR(EOPNOTSUPP, efadv_query_device(ends.context, &efa, sizeof efa));
  ibv_qp_init_attr driver{};
  driver.qp_type = IBV_QPT_DRIVER;
  CHECK_REFUSED(EOPNOTSUPP, efadv_create_driver_qp(ends.pd, &driver, EFADV_QP_DRIVER_TYPE_SRD));
  ibv_ece ece{};
  CHECK_ERROR(EOPNOTSUPP, ibv_query_ece(ends.a.qp, &ece));
  CHECK(ibv_fork_init() == 0 && ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
}

uint32_t rate_limit_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  REQUIRE(ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT, &init) == 0);
  return attr.rate_limit;
}

void rate_limits(Ends& ends) {
  ibv_device_attr_ex device{};
  REQUIRE(ibv_query_device_ex(ends.context, nullptr, &device) == 0);
  CHECK(device.packet_pacing_caps.qp_rate_limit_max == UINT32_MAX);
  CHECK((device.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_UD) != 0);
  ibv_qp_rate_limit_attr rate{.rate_limit = 50'000, .max_burst_sz = 4096, .typical_pkt_sz = 1024};
  CHECK_ERROR(0, ibv_modify_qp_rate_limit(ends.a.qp, &rate));
  CHECK(rate_limit_of(ends.a.qp) == 50'000);
  rate.comp_mask = 1;
  CHECK_ERROR(EINVAL, ibv_modify_qp_rate_limit(ends.a.qp, &rate));
  ibv_qp_attr limited{};
  limited.rate_limit = 20'000;
  CHECK_ERROR(0, ibv_modify_qp(ends.a.qp, &limited, IBV_QP_RATE_LIMIT));
  CHECK(rate_limit_of(ends.a.qp) == 20'000);
  ibv_sge entry = ends.sge(0, 8192);
  ibv_send_wr wr{};
  wr.sg_list = &entry;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {.remote_addr = ends.address(8192), .rkey = ends.mr->rkey};
  ibv_send_wr* bad = nullptr;
  REQUIRE(ibv_post_send(ends.a.qp, &wr, &bad) == 0);
  CHECK(wait_for(ends.a.cq).status == IBV_WC_SUCCESS);
  limited.rate_limit = 0;
  CHECK_ERROR(0, ibv_modify_qp(ends.a.qp, &limited, IBV_QP_RATE_LIMIT));
  CHECK(rate_limit_of(ends.a.qp) == 0);
}

}  // namespace

void check_errors() {
  Ends ends(IBV_QPT_RC);
  wrong_arguments(ends);
  wrong_queue_pairs(ends);
  full_queues(ends);
  children(ends);
  domains(ends);
  domains_of_files(ends);
  not_in_software(ends);
  rate_limits(ends);
}
