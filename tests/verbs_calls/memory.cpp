// SPDX-License-Identifier: BSD-3-Clause
// Regions under other addresses, regions that change, null regions and memory of the device: each
// is written and read by a peer.
#include <dlfcn.h>

#include "lib/adapters/verbs/abi/newer.hpp"
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

// The status of an ATOMIC_WRITE of 8 bytes that `local` names to the start of the memory.
ibv_wc_status atomic_write(Ends& ends, ibv_sge local) {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_ATOMIC_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &local;
  wr.num_sge = 1;
  wr.wr.rdma = {.remote_addr = ends.address(0), .rkey = ends.mr->rkey};
  ibv_send_wr* bad = nullptr;
  CHECK_ERROR(0, ibv_post_send(ends.a.qp, &wr, &bad));
  return wait_for(ends.a.cq).status;
}

void atomic_writes() {
  Ends ends(IBV_QPT_RC);
  fill(ends, 6);
  constexpr uint64_t kIova = 0x7000'0000'1000;
  ibv_mr* mr = ibv_reg_mr_iova(ends.pd, ends.at(4096), 4096, kIova, kAllAccess);
  ibv_mr* zeroes = ibv_alloc_null_mr(ends.pd);
  REQUIRE(mr != nullptr && zeroes != nullptr);
  CHECK(atomic_write(ends, {.addr = kIova + 128, .length = 8, .lkey = mr->lkey}) == IBV_WC_SUCCESS);
  CHECK(std::memcmp(ends.at(0), ends.at(4096 + 128), 8) == 0);
  CHECK(atomic_write(ends, {.addr = 64, .length = 8, .lkey = zeroes->lkey}) == IBV_WC_SUCCESS);
  for (size_t i = 0; i < 8; ++i) CHECK(*ends.at(i) == 0);
  // Eight bytes of which four are beyond the region.
  CHECK(atomic_write(ends, {.addr = kIova + 4092, .length = 8, .lkey = mr->lkey}) ==
        IBV_WC_LOC_PROT_ERR);
  CHECK_ERROR(0, ibv_dereg_mr(zeroes));
  CHECK_ERROR(0, ibv_dereg_mr(mr));
}

// Calls that our headers do not have, looked up as NCCL does.
template <class Function>
Function* newer(const char* name, const char* version) {
  auto* function = reinterpret_cast<Function*>(dlvsym(RTLD_DEFAULT, name, version));
  REQUIRE(function != nullptr);
  return function;
}

void newer_calls(Ends& ends) {
  using weft::drop_in::MrInitAttr;
  auto* reg_mr_ex = newer<ibv_mr*(ibv_pd*, MrInitAttr*)>("ibv_reg_mr_ex", "IBVERBS_1.15");
  auto* speed_of =
      newer<int(ibv_context*, uint32_t, uint64_t*)>("ibv_query_port_speed", "IBVERBS_1.16");
  uint64_t speed = 0;  // of 100 Mb/s
  CHECK_ERROR(0, speed_of(ends.context, 1, &speed));
  CHECK(speed > 0);
  CHECK_ERROR(EINVAL, speed_of(ends.context, 2, &speed));
  MrInitAttr attr{};
  attr.length = 4096;
  attr.access = kAllAccess;
  attr.addr = ends.at(4096);
  attr.iova = 0x10000;
  CHECK_REFUSED(EINVAL, reg_mr_ex(ends.pd, &attr));  // neither memory nor descriptor
  attr.comp_mask = weft::drop_in::kMrAddr | weft::drop_in::kMrDmah;
  CHECK_REFUSED(EOPNOTSUPP, reg_mr_ex(ends.pd, &attr));
  attr.comp_mask = weft::drop_in::kMrAddr | weft::drop_in::kMrIova;
  fill(ends, 7);
  ibv_mr* mr = reg_mr_ex(ends.pd, &attr);
  REQUIRE(mr != nullptr);
  CHECK(mr->addr == attr.addr && mr->length == attr.length);
  CHECK(write(ends, ends.sge(0, 100), 0x10000 + 32, mr->rkey) == IBV_WC_SUCCESS);
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
  newer_calls(ends);
  atomic_writes();
}
