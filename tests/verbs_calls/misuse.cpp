// SPDX-License-Identifier: BSD-3-Clause
// What a program should not do: destroy twice, destroy as another kind of object, deregister under
// a window, unmap registered memory. It is told so, or its request fails; it goes on.
#include <sys/mman.h>

#include <memory>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/loop.hpp"

namespace {

template <class Object>
void destroys_once(int (*destroy)(Object*), Object* object) {
  REQUIRE(object != nullptr);
  CHECK_ERROR(0, destroy(object));
  CHECK_ERROR(EINVAL, destroy(object));
}

// Windows, device memory, thread and XRC domains are missing: verbs.h itself reads them.
void each_object_is_destroyed_once(Ends& ends) {
  ibv_context* context = ends.context;
  ibv_ah_attr address = own_address(context);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {.max_wr = 4, .max_sge = 1};
  destroys_once(ibv_dealloc_pd, ibv_alloc_pd(context));
  destroys_once(ibv_dereg_mr, ibv_reg_mr(ends.pd, ends.at(0), 64, IBV_ACCESS_LOCAL_WRITE));
  destroys_once(ibv_dereg_mr, ibv_alloc_null_mr(ends.pd));
  destroys_once(ibv_destroy_ah, ibv_create_ah(ends.pd, &address));
  destroys_once(ibv_destroy_cq, ibv_create_cq(context, 4, nullptr, nullptr, 0));
  destroys_once(ibv_destroy_comp_channel, ibv_create_comp_channel(context));
  destroys_once(ibv_destroy_srq, ibv_create_srq(ends.pd, &srq_attr));
  Loop loop(ends, nullptr);
  destroys_once(ibv_destroy_qp, loop.qp);
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
}

template <class To, class From>
To* as(From* from) {
  return reinterpret_cast<To*>(from);
}

// None of these is what the call destroys; all live on.
void other_kinds_are_refused(Ends& ends) {
  CHECK_ERROR(EINVAL, ibv_destroy_qp(as<ibv_qp>(ends.a.cq)));
  CHECK_ERROR(EINVAL, ibv_destroy_cq(as<ibv_cq>(ends.a.qp)));
  CHECK_ERROR(EINVAL, ibv_dereg_mr(as<ibv_mr>(ends.pd)));
  CHECK_ERROR(EINVAL, ibv_dealloc_pd(as<ibv_pd>(ends.mr)));
  CHECK_ERROR(EINVAL, ibv_destroy_srq(as<ibv_srq>(ends.a.qp)));
  CHECK_ERROR(EINVAL, ibv_destroy_ah(as<ibv_ah>(ends.mr)));
  CHECK_ERROR(-1, ibv_close_device(as<ibv_context>(ends.pd)));
  CHECK_ERROR(EINVAL, ibv_destroy_comp_channel(as<ibv_comp_channel>(ends.a.cq)));
  CHECK_ERROR(EINVAL, ibv_destroy_cq(nullptr));
  CHECK_ERROR(EINVAL, ibv_destroy_qp(as<ibv_qp>(reinterpret_cast<void*>(uintptr_t{8}))));
}

void region_under_a_window(Ends& ends) {
  ibv_mr* mr = ibv_reg_mr(ends.pd, ends.at(0), 4096, kAllAccess);
  ibv_mw* mw = ibv_alloc_mw(ends.pd, IBV_MW_TYPE_1);
  REQUIRE(mr != nullptr && mw != nullptr);
  ibv_mw_bind bind{.wr_id = 1,
                   .send_flags = IBV_SEND_SIGNALED,
                   .bind_info = {.mr = mr,
                                 .addr = ends.address(0),
                                 .length = 64,
                                 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
  CHECK_ERROR(0, ibv_bind_mw(ends.a.qp, mw, &bind));
  CHECK(wait_for(ends.a.cq).status == IBV_WC_SUCCESS);
  CHECK_ERROR(EBUSY, ibv_dereg_mr(mr));
  CHECK_ERROR(0, ibv_dealloc_mw(mw));
  CHECK_ERROR(0, ibv_dereg_mr(mr));
}

// A request between the memory of `ends` and memory that is registered and no longer mapped.
ibv_wc_status request_on_unmapped(ibv_wr_opcode opcode, bool here) {
  Ends ends(IBV_QPT_RC);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  ibv_mr* mr = ibv_reg_mr(ends.pd, page, 4096, kAllAccess);
  REQUIRE(mr != nullptr);
  const auto gone = reinterpret_cast<uintptr_t>(page);
  REQUIRE(munmap(page, 4096) == 0);
  ibv_sge entry = ends.sge(0, 64);
  if (here) entry = {.addr = gone, .length = 64, .lkey = mr->lkey};
  ibv_send_wr wr{};
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &entry;
  wr.num_sge = 1;
  wr.wr.rdma = {.remote_addr = here ? ends.address(4096) : gone,
                .rkey = here ? ends.mr->rkey : mr->rkey};
  ibv_send_wr* bad = nullptr;
  CHECK_ERROR(0, ibv_post_send(ends.a.qp, &wr, &bad));
  const ibv_wc_status status = wait_for(ends.a.cq).status;
  ibv_async_event event;
  set_nonblocking(ends.context->async_fd);
  while (ibv_get_async_event(ends.context, &event) == 0) ibv_ack_async_event(&event);
  CHECK_ERROR(0, ibv_dereg_mr(mr));
  // Another thread may have mapped something there since, a sanitizer's for example.
  unsigned char resident = 0;
  const bool is_unmapped = mincore(page, 4096, &resident) != 0;
  return is_unmapped ? status : request_on_unmapped(opcode, here);
}

void memory_is_unmapped() {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    const ibv_wc_status here = request_on_unmapped(opcode, true);
    CHECK(here == IBV_WC_LOC_PROT_ERR || here == IBV_WC_LOC_ACCESS_ERR);
    const ibv_wc_status there = request_on_unmapped(opcode, false);
    CHECK(there == IBV_WC_REM_ACCESS_ERR || there == IBV_WC_REM_OP_ERR);
  }
}

}  // namespace

void check_misuse() {
  {
    Ends ends(IBV_QPT_RC);
    each_object_is_destroyed_once(ends);
    other_kinds_are_refused(ends);
    region_under_a_window(ends);
  }
  memory_is_unmapped();
}
