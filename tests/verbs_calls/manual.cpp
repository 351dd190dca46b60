// SPDX-License-Identifier: BSD-3-Clause
// What the manual pages promise beside the errno of one wrong argument: which calls return -1, what
// stays unchanged after an error, and what is posted of a list.
#include <initializer_list>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/loop.hpp"

namespace {

constexpr uint64_t kWriteAndRead = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;

// Requests of one ibv_wr_start(): WRITEs, the last of which has `last_length` bytes.
int write_batch(Ends& ends, int count, uint32_t last_length) {
  ibv_qp_ex* ex = ends.a.ex;
  ibv_wr_start(ex);
  for (int i = 0; i < count; ++i) {
    ex->wr_id = static_cast<uint64_t>(i);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, ends.mr->rkey, ends.address(64));
    const bool is_last = i == count - 1;
    ibv_wr_set_sge(ex, ends.mr->lkey, ends.address(0), is_last ? last_length : 8);
  }
  return ibv_wr_complete(ex);
}

// ibv_wr_post(3): "the entire posting will be aborted". Two steps of 16 are in a batch of 30.
void batch_is_posted_as_a_whole() {
  Ends ends(IBV_QPT_RC, kWriteAndRead);
  ibv_wc wc;
  CHECK_ERROR(ENOMEM, write_batch(ends, 33, 8));  // max_send_wr is 32
  CHECK_ERROR(EINVAL, write_batch(ends, 30, UINT32_MAX));
  CHECK(ibv_poll_cq(ends.a.cq, 1, &wc) == 0);
  CHECK_ERROR(0, write_batch(ends, 30, 8));
  for (uint64_t id = 0; id < 30; ++id) CHECK(wait_for(ends.a.cq).wr_id == id);
  CHECK(ibv_poll_cq(ends.a.cq, 1, &wc) == 0);
  CHECK_ERROR(0, write_batch(ends, 0, 0));
  ibv_wr_start(ends.a.ex);
  ibv_wr_set_sge(ends.a.ex, ends.mr->lkey, ends.address(0), 8);  // of no request
  CHECK_ERROR(EINVAL, ibv_wr_complete(ends.a.ex));
  ibv_wr_start(ends.a.ex);
  ibv_wr_rdma_read(ends.a.ex, ends.mr->rkey, ends.address(64));
  ibv_wr_set_inline_data(ends.a.ex, ends.at(0), 8);  // for SEND and WRITE only
  CHECK_ERROR(EINVAL, ibv_wr_complete(ends.a.ex));
}

void minus_one(Ends& ends) {
  ibv_wc wc{};
  ibv_grh header{};
  ibv_ah_attr attr{};
  errno = 0;  // a completion without IBV_WC_GRH
  CHECK(ibv_init_ah_from_wc(ends.context, 1, &wc, &header, &attr) == -1);
  CHECK_REFUSED(EINVAL, ibv_create_ah_from_wc(ends.pd, &wc, &header, 1));
  wc.wc_flags = IBV_WC_GRH;
  CHECK(ibv_init_ah_from_wc(ends.context, 2, &wc, &header, &attr) == -1);
  ibv_context* context = open_device();
  CHECK_ERROR(0, ibv_close_device(context));
  errno = 0;
  const int closed = ibv_close_device(context);
  CHECK_ERROR(EINVAL, errno);
  CHECK_ERROR(-1, closed);
  CHECK(ibv_get_pkey_index(ends.context, 1, 0x1234) == -1);
}

void address_handles_name_the_port(Ends& ends) {
  ibv_ah_attr address = own_address(ends.context);
  address.port_num = 0;
  CHECK_REFUSED(EINVAL, ibv_create_ah(ends.pd, &address));
  address.port_num = 2;
  CHECK_REFUSED(EINVAL, ibv_create_ah(ends.pd, &address));
}

// ibv_create_qp(3): ibv_destroy_qp() fails if the QP is attached to a multicast group.
void attached_queue_pair() {
  Ends ends(IBV_QPT_UD);
  ibv_gid group = own_address(ends.context).grh.dgid;  // of the device's address family
  const bool is_ipv4 = group.raw[10] == 0xFF && group.raw[11] == 0xFF;
  group = {};
  if (is_ipv4) group.raw[10] = group.raw[11] = 0xFF;
  group.raw[is_ipv4 ? 12 : 0] = is_ipv4 ? 239 : 0xFF;
  if (!is_ipv4) group.raw[1] = 0x15;
  group.raw[15] = 9;
  const int attached = ibv_attach_mcast(ends.a.qp, &group, 0);
  if (attached == EOPNOTSUPP) return;  // shared memory has no groups
  CHECK_ERROR(0, attached);
  CHECK_ERROR(0, ibv_attach_mcast(ends.a.qp, &group, 0));
  CHECK_ERROR(EBUSY, ibv_destroy_qp(ends.a.qp));
  CHECK_ERROR(0, ibv_detach_mcast(ends.a.qp, &group, 0));
  CHECK_ERROR(EINVAL, ibv_detach_mcast(ends.a.qp, &group, 0));
}

// ibv_modify_srq(3): none of the attributes is modified if one is invalid.
void srq_is_changed_as_a_whole(Ends& ends) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 16, .max_sge = 1};
  ibv_srq* srq = ibv_create_srq(ends.pd, &init);
  REQUIRE(srq != nullptr);
  ibv_srq_attr attr{};
  constexpr int kBoth = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
  const auto has = [&](uint32_t max_wr, uint32_t limit) {
    ibv_srq_attr now{};
    CHECK_ERROR(0, ibv_query_srq(srq, &now));
    return now.max_wr == max_wr && now.srq_limit == limit;
  };
  std::array<ibv_recv_wr, 12> list{};
  for (ibv_recv_wr& wr : list) {
    ibv_recv_wr* bad = nullptr;
    CHECK_ERROR(0, ibv_post_srq_recv(srq, &wr, &bad));
  }
  attr = {.max_wr = 32, .srq_limit = 33};
  CHECK_ERROR(EINVAL, ibv_modify_srq(srq, &attr, kBoth));
  CHECK(has(16, 0));
  attr = {.max_wr = 8, .srq_limit = 4};  // it holds 12
  CHECK_ERROR(EINVAL, ibv_modify_srq(srq, &attr, kBoth));
  CHECK(has(16, 0));
  attr = {.max_wr = 16, .srq_limit = 12};
  CHECK_ERROR(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
  attr = {.max_wr = 32, .srq_limit = 11};
  CHECK_ERROR(0, ibv_modify_srq(srq, &attr, kBoth));
  CHECK(has(32, 11));
  attr = {.max_wr = 12, .srq_limit = 10};
  CHECK_ERROR(0, ibv_modify_srq(srq, &attr, kBoth));
  CHECK(has(12, 10));
  CHECK_ERROR(0, ibv_destroy_srq(srq));
}

void advice(Ends& ends) {
  constexpr auto kRead = IBV_ADVISE_MR_ADVICE_PREFETCH;
  constexpr auto kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  const auto advise = [&](ibv_pd* pd, ibv_advise_mr_advice advice, ibv_sge entry) {
    return ibv_advise_mr(pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &entry, 1);
  };
  ibv_pd* other = ibv_alloc_pd(ends.context);
  ibv_mr* mr = ibv_reg_mr(ends.pd, ends.at(0), 4096, IBV_ACCESS_ON_DEMAND);
  REQUIRE(other != nullptr && mr != nullptr);
  const ibv_sge entry{.addr = ends.address(0), .length = 4096, .lkey = mr->lkey};
  ibv_sge changed = entry;
  CHECK_ERROR(0, advise(ends.pd, kRead, entry));
  CHECK_ERROR(EPERM, advise(ends.pd, kWrite, entry));  // the region is not writable
  CHECK_ERROR(EPERM, advise(other, kRead, entry));
  changed.length = 4097;
  CHECK_ERROR(EFAULT, advise(ends.pd, kRead, changed));
  changed.lkey = mr->lkey ^ 0xFFFF00;
  CHECK_ERROR(EFAULT, advise(ends.pd, kRead, changed));
  changed = ends.sge(0, 64);  // not on demand
  CHECK_ERROR(EINVAL, advise(ends.pd, kRead, changed));
  changed = entry;
  CHECK_ERROR(EINVAL, ibv_advise_mr(ends.pd, kRead, 1 << 5, &changed, 1));
  CHECK_ERROR(ENOTSUP, advise(ends.pd, static_cast<ibv_advise_mr_advice>(9), entry));
  CHECK_ERROR(0, ibv_dereg_mr(mr));
  CHECK_ERROR(0, ibv_dealloc_pd(other));
}

// ibv_alloc_null_mr(3): it has the maximum length, and only the lkey is valid.
void null_region(Ends& ends) {
  ibv_mr* mr = ibv_alloc_null_mr(ends.pd);
  REQUIRE(mr != nullptr);
  CHECK(mr->length == SIZE_MAX);
  CHECK(mr->rkey == 0);
  CHECK_ERROR(IBV_REREG_MR_ERR_INPUT,
              ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0));
  CHECK_ERROR(0, ibv_dereg_mr(mr));
}

// What a request asks for has its effect or an error: no checksum is offloaded.
void unknown_send_flags(Ends& ends) {
  ibv_sge entry = ends.sge(0, 8);
  for (const unsigned flags : {unsigned{IBV_SEND_IP_CSUM}, 1U << 20}) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    wr.sg_list = &entry;
    wr.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    CHECK_ERROR(EINVAL, ibv_post_send(ends.a.qp, &wr, &bad));
    CHECK(bad == &wr);
  }
}

}  // namespace

void check_manual() {
  batch_is_posted_as_a_whole();
  attached_queue_pair();
  Ends ends(IBV_QPT_RC);
  minus_one(ends);
  address_handles_name_the_port(ends);
  srq_is_changed_as_a_whole(ends);
  advice(ends);
  null_region(ends);
  unknown_send_flags(ends);
}
