// SPDX-License-Identifier: BSD-3-Clause
// Regions under other addresses, regions that change, null regions and memory of the device: each
// is written and read by a peer.
#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/ends.hpp"

#undef ibv_reg_mr_iova

namespace {

// Moves 100 bytes from `local` to `remote` by WRITE; the status of the completion.
ibv_wc_status write(Ends& ends, ibv_sge local, uint64_t remote, uint32_t rkey) {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &local;
  wr.num_sge = 1;
  wr.wr.rdma = {.remote_addr = remote, .rkey = rkey};
  ibv_send_wr* bad = nullptr;
  CHECK_ERROR(0, ibv_post_send(ends.a.qp, &wr, &bad));
  return wait_for(ends.a.cq).status;
}

bool moved(Ends& ends, size_t from, size_t to) {
  return std::memcmp(ends.at(from), ends.at(to), 100) == 0;
}

void fill(Ends& ends, char seed) {
  for (size_t i = 0; i < ends.memory.size(); ++i)
    ends.memory[i] = static_cast<char>(static_cast<char>(i / 128) + seed);
}

void other_addresses(Ends& ends) {
  constexpr uint64_t kIova = 0x7000'0000'1000;
  fill(ends, 1);
  ibv_mr* mr = ibv_reg_mr_iova(ends.pd, ends.at(4096), 4096, kIova, kAllAccess);
  REQUIRE(mr != nullptr);
  CHECK(write(ends, ends.sge(0, 100), kIova + 64, mr->rkey) == IBV_WC_SUCCESS);
  CHECK(moved(ends, 0, 4096 + 64));
  const ibv_sge local{.addr = kIova, .length = 100, .lkey = mr->lkey};
  CHECK(write(ends, local, ends.address(9000), ends.mr->rkey) == IBV_WC_SUCCESS);
  CHECK(moved(ends, 4096, 9000));
  CHECK_ERROR(0, ibv_dereg_mr(mr));

  fill(ends, 2);
  mr = ibv_reg_mr(ends.pd, ends.at(4096), 4096, kAllAccess | IBV_ACCESS_ZERO_BASED);
  REQUIRE(mr != nullptr);
  CHECK(write(ends, ends.sge(0, 100), 32, mr->rkey) == IBV_WC_SUCCESS);
  CHECK(moved(ends, 0, 4096 + 32));
  CHECK_ERROR(0, ibv_dereg_mr(mr));
}

void changes(Ends& ends) {
  fill(ends, 3);
  ibv_mr* mr = ibv_reg_mr(ends.pd, ends.at(4096), 4096, kAllAccess);
  REQUIRE(mr != nullptr);
  CHECK(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0) == IBV_REREG_MR_ERR_INPUT);
  CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, ends.at(8192), 4096, 0) == 0);
  CHECK(mr->addr == ends.at(8192));
  CHECK(write(ends, ends.sge(0, 100), ends.address(8192), mr->rkey) == IBV_WC_SUCCESS);
  CHECK(moved(ends, 0, 8192));
  ibv_pd* other = ibv_alloc_pd(ends.context);
  CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0) == 0);
  CHECK(mr->pd == other);
  CHECK_ERROR(EBUSY, ibv_dealloc_pd(other));
  CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, ends.pd, nullptr, 0, 0) == 0);
  CHECK_ERROR(0, ibv_dealloc_pd(other));
  CHECK_ERROR(0, ibv_dereg_mr(mr));
}

void null_region(Ends& ends) {
  fill(ends, 4);
  ibv_mr* mr = ibv_alloc_null_mr(ends.pd);
  REQUIRE(mr != nullptr);
  const ibv_sge local{.addr = 0, .length = 100, .lkey = mr->lkey};
  CHECK(write(ends, local, ends.address(0), ends.mr->rkey) == IBV_WC_SUCCESS);
  for (size_t i = 0; i < 100; ++i) CHECK(*ends.at(i) == 0);
  CHECK_ERROR(0, ibv_dereg_mr(mr));
}

void device_memory(Ends& ends) {
  fill(ends, 5);
  ibv_alloc_dm_attr attr{.length = 1000};
  ibv_dm* dm = ibv_alloc_dm(ends.context, &attr);
  REQUIRE(dm != nullptr);
  constexpr int kAccess = kAllAccess | IBV_ACCESS_ZERO_BASED;
  CHECK_REFUSED(EINVAL, ibv_reg_dm_mr(ends.pd, dm, 0, 1000, kAllAccess));
  CHECK_REFUSED(EINVAL, ibv_reg_dm_mr(ends.pd, dm, 8, 1000, kAccess));
  ibv_mr* mr = ibv_reg_dm_mr(ends.pd, dm, 0, 1000, kAccess);
  REQUIRE(mr != nullptr);
  CHECK_ERROR(EBUSY, ibv_free_dm(dm));
  CHECK(write(ends, ends.sge(0, 100), 8, mr->rkey) == IBV_WC_SUCCESS);
  CHECK_ERROR(0, ibv_memcpy_from_dm(ends.at(4096), dm, 8, 100));
  CHECK(moved(ends, 0, 4096));
  CHECK_ERROR(EINVAL, ibv_memcpy_from_dm(ends.at(4096), dm, 952, 100));
  CHECK_ERROR(EINVAL, ibv_memcpy_from_dm(ends.at(4096), dm, 2, 100));
  CHECK_ERROR(EINVAL, ibv_memcpy_to_dm(dm, UINT64_MAX, ends.at(0), 100));
  CHECK_ERROR(0, ibv_dereg_mr(mr));
  CHECK_ERROR(0, ibv_free_dm(dm));
}

}  // namespace

void check_memory() {
  Ends ends(IBV_QPT_RC);
  other_addresses(ends);
  changes(ends);
  null_region(ends);
  device_memory(ends);
}
