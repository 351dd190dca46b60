// SPDX-License-Identifier: BSD-3-Clause
// providers/ibverbs/queue/translate: the words of weft and of libibverbs for the same things.
#include <arpa/inet.h>

#include "providers/ibverbs/queue/translate.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using ibverbs::from_verbs;
using ibverbs::rate_to_verbs;
using ibverbs::to_verbs;

namespace {

TEST_CASE("queue pair states are translated both ways") {
  for (const QpState state : {QpState::reset, QpState::init, QpState::rtr, QpState::rts,
                              QpState::sqd, QpState::sqe, QpState::err})
    CHECK(from_verbs(to_verbs(state)) == state);
}

TEST_CASE("path MTUs are powers of two from 256") {
  CHECK(ibverbs::mtu_to_verbs(256) == IBV_MTU_256);
  CHECK(ibverbs::mtu_to_verbs(4096) == IBV_MTU_4096);
  for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2)
    CHECK(ibverbs::mtu_from_verbs(ibverbs::mtu_to_verbs(mtu)) == mtu);
}

TEST_CASE("rights and flags are translated one by one and together") {
  CHECK(to_verbs(Access::none) == 0);
  CHECK(to_verbs(Access::local_write) == IBV_ACCESS_LOCAL_WRITE);
  CHECK(to_verbs(Access::remote_write) == IBV_ACCESS_REMOTE_WRITE);
  CHECK(to_verbs(Access::remote_read) == IBV_ACCESS_REMOTE_READ);
  CHECK(to_verbs(Access::remote_atomic) == IBV_ACCESS_REMOTE_ATOMIC);
  CHECK(to_verbs(SendFlags::signaled) == IBV_SEND_SIGNALED);
  CHECK(to_verbs(SendFlags::fence) == IBV_SEND_FENCE);
  CHECK(to_verbs(SendFlags::solicited) == IBV_SEND_SOLICITED);
  CHECK(to_verbs(SendFlags::inline_data) == IBV_SEND_INLINE);
  CHECK(to_verbs(SendFlags::fence | SendFlags::inline_data) == (IBV_SEND_FENCE | IBV_SEND_INLINE));
}

ibv_wc completion(ibv_wc_opcode opcode, unsigned flags) {
  ibv_wc done{};
  done.wr_id = 77;
  done.opcode = opcode;
  done.byte_len = 1000;
  done.qp_num = 17;
  done.src_qp = 18;
  done.wc_flags = flags;
  done.imm_data = htonl(0xA1B2C3D4);
  return done;
}

Completion taken(const ibv_wc& done) {
  Completion c;
  c.flags = CompletionFlags::rdma_write;  // what was there before means nothing
  from_verbs(done, c);
  return c;
}

TEST_CASE("receives carry what came with them") {
  const Completion plain = taken(completion(IBV_WC_RECV, IBV_WC_GRH));
  CHECK(plain.id == 77);
  CHECK(plain.type == WorkType::recv);
  CHECK(plain.flags == CompletionFlags::grh);
  CHECK(plain.byte_count == 1000);
  CHECK(plain.imm_or_key == 0);
  CHECK(plain.qp.value == 17);
  CHECK(plain.source_qp.value == 18);

  const Completion imm = taken(completion(IBV_WC_RECV, IBV_WC_WITH_IMM));
  CHECK(imm.type == WorkType::recv_with_imm);
  CHECK(imm.flags == CompletionFlags::with_imm);
  CHECK(imm.imm_or_key == 0xA1B2C3D4);

  const Completion written = taken(completion(IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM));
  CHECK(written.type == WorkType::recv_with_imm);
  CHECK(written.flags == (CompletionFlags::with_imm | CompletionFlags::rdma_write));

  ibv_wc revoked = completion(IBV_WC_RECV, IBV_WC_WITH_INV);
  revoked.invalidated_rkey = 5;
  CHECK(taken(revoked).flags == CompletionFlags::with_invalidate);
  CHECK(taken(revoked).imm_or_key == 5);
}

TEST_CASE("sends have their type and no flags of receives") {
  // Some devices set this on the sender's side too.
  const Completion write = taken(completion(IBV_WC_RDMA_WRITE, IBV_WC_WITH_IMM));
  CHECK(write.type == WorkType::write);
  CHECK(write.flags == CompletionFlags::none);
  CHECK(taken(completion(IBV_WC_RDMA_READ, 0)).type == WorkType::read);
  CHECK(taken(completion(IBV_WC_COMP_SWAP, 0)).type == WorkType::compare_swap);
  CHECK(taken(completion(IBV_WC_FETCH_ADD, 0)).type == WorkType::fetch_add);
  CHECK(taken(completion(IBV_WC_SEND, 0)).type == WorkType::send);
}

TEST_CASE("of a failed completion only valid fields are read") {
  ibv_wc failed = completion(IBV_WC_RECV, IBV_WC_WITH_IMM);
  failed.status = IBV_WC_WR_FLUSH_ERR;
  failed.vendor_err = 0x62;
  const Completion c = taken(failed);
  CHECK(c.status == Status::flushed);
  CHECK(c.id == 77);
  CHECK(c.qp.value == 17);
  CHECK(c.vendor_error == 0x62);
  CHECK(c.flags == CompletionFlags::none);
  CHECK(c.byte_count == 0);
}

TEST_CASE("unknown statuses of verbs are fatal, not success") {
  for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    const bool success = from_verbs(static_cast<ibv_wc_status>(status)) == Status::success;
    CHECK(success == (status == IBV_WC_SUCCESS));
  }
  CHECK(from_verbs(IBV_WC_RNR_RETRY_EXC_ERR) == Status::rnr_retry_exceeded);
  CHECK(from_verbs(IBV_WC_REM_ACCESS_ERR) == Status::remote_access_error);
  CHECK(from_verbs(IBV_WC_GENERAL_ERR) == Status::fatal);
}

TEST_CASE("a static rate is the highest one of verbs that is not above it") {
  CHECK(rate_to_verbs({}) == IBV_RATE_MAX);
  CHECK(rate_to_verbs(Rate::from_gbps(100)) == IBV_RATE_100_GBPS);
  CHECK(rate_to_verbs({99'999'999'999}) == IBV_RATE_80_GBPS);
  CHECK(rate_to_verbs({2'500'000'000}) == IBV_RATE_2_5_GBPS);
  CHECK(rate_to_verbs({1'000}) == IBV_RATE_2_5_GBPS);  // there is no lower one
  CHECK(rate_to_verbs(Rate::from_gbps(5'000)) == IBV_RATE_300_GBPS);
  CHECK(to_verbs(AddressVector{.static_rate = Rate::from_gbps(10)}, 1, 0).static_rate ==
        IBV_RATE_10_GBPS);
}

}  // namespace
