// SPDX-License-Identifier: BSD-3-Clause
// Every operation of ibv_post_send and of ibv_wr_*, over each transport service that has it, with
// the data that it moves.
#include <arpa/inet.h>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/ends.hpp"

namespace {

constexpr size_t kPeer = 8192;  // where the peer's half begins
constexpr uint32_t kImm = 0xA1B2C3D4;

// What a request does: the two ways to post it must do the same.
enum class Way { post_send, extended };

class Poster {
 public:
  Poster(Ends& ends, Way way) : ends_(ends), way_(way) {}

  // Posts `wr` by the way of this case and waits for its completion, which must succeed.
  void post(ibv_send_wr wr, ibv_wc_opcode expected) {
    wr.wr_id = ++last_id_;
    wr.send_flags |= IBV_SEND_SIGNALED;
    if (way_ == Way::post_send) {
      ibv_send_wr* bad = nullptr;
      CHECK_ERROR(0, ibv_post_send(ends_.a.qp, &wr, &bad));
    } else {
      CHECK_ERROR(0, post_extended(wr));
    }
    const ibv_wc wc = wait_for(ends_.a.cq);
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.opcode == expected);
    CHECK(wc.wr_id == last_id_);
    CHECK(wc.qp_num == ends_.a.qp->qp_num);
  }

 private:
  int post_extended(const ibv_send_wr& wr) {
    ibv_qp_ex* ex = ends_.a.ex;
    ibv_wr_start(ex);
    ex->wr_id = wr.wr_id;
    ex->wr_flags = wr.send_flags & ~unsigned{IBV_SEND_INLINE};
    begin(ex, wr);
    if (ex->qp_base.qp_type == IBV_QPT_UD)
      ibv_wr_set_ud_addr(ex, wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0)
      ibv_wr_set_inline_data(ex, reinterpret_cast<void*>(wr.sg_list->addr), wr.sg_list->length);
    else if (wr.opcode != IBV_WR_ATOMIC_WRITE && wr.num_sge == 1)
      ibv_wr_set_sge(ex, wr.sg_list->lkey, wr.sg_list->addr, wr.sg_list->length);
    else if (wr.num_sge > 1)
      ibv_wr_set_sge_list(ex, static_cast<size_t>(wr.num_sge), wr.sg_list);
    return ibv_wr_complete(ex);
  }

  static void begin(ibv_qp_ex* ex, const ibv_send_wr& wr) {
    const auto& rdma = wr.wr.rdma;
    const auto& atomic = wr.wr.atomic;
    switch (wr.opcode) {
      case IBV_WR_SEND:
        return ibv_wr_send(ex);
      case IBV_WR_SEND_WITH_IMM:
        return ibv_wr_send_imm(ex, wr.imm_data);
      case IBV_WR_SEND_WITH_INV:
        return ibv_wr_send_inv(ex, wr.invalidate_rkey);
      case IBV_WR_RDMA_WRITE:
        return ibv_wr_rdma_write(ex, rdma.rkey, rdma.remote_addr);
      case IBV_WR_RDMA_WRITE_WITH_IMM:
        return ibv_wr_rdma_write_imm(ex, rdma.rkey, rdma.remote_addr, wr.imm_data);
      case IBV_WR_RDMA_READ:
        return ibv_wr_rdma_read(ex, rdma.rkey, rdma.remote_addr);
      case IBV_WR_ATOMIC_CMP_AND_SWP:
        return ibv_wr_atomic_cmp_swp(ex, atomic.rkey, atomic.remote_addr, atomic.compare_add,
                                     atomic.swap);
      case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return ibv_wr_atomic_fetch_add(ex, atomic.rkey, atomic.remote_addr, atomic.compare_add);
      case IBV_WR_ATOMIC_WRITE:
        return ibv_wr_atomic_write(ex, rdma.rkey, rdma.remote_addr,
                                   reinterpret_cast<void*>(wr.sg_list->addr));
      case IBV_WR_LOCAL_INV:
        return ibv_wr_local_inv(ex, wr.invalidate_rkey);
      case IBV_WR_BIND_MW:
        return ibv_wr_bind_mw(ex, wr.bind_mw.mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info);
      default:
        CHECK(false);
    }
  }

  Ends& ends_;
  Way way_;
  uint64_t last_id_ = 100;
};

ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge* entries, int count) {
  ibv_send_wr wr{};
  wr.opcode = opcode;
  wr.sg_list = entries;
  wr.num_sge = count;
  return wr;
}

void fill(Ends& ends) {
  for (size_t i = 0; i < ends.memory.size(); ++i) ends.memory[i] = static_cast<char>(i * 7 + 1);
}
bool same(Ends& ends, size_t from, size_t to, size_t length) {
  return std::memcmp(ends.at(from), ends.at(to), length) == 0;
}

void send(Ends& ends, Poster& poster, ibv_wr_opcode opcode, unsigned flags = 0) {
  fill(ends);
  ends.receive(kPeer, 256);
  std::array entries{ends.sge(0, 20), ends.sge(100, 30)};
  const int count = (flags & IBV_SEND_INLINE) != 0 ? 1 : 2;
  ibv_send_wr wr = request(opcode, entries.data(), count);
  wr.send_flags = flags;
  wr.imm_data = htonl(kImm);
  poster.post(wr, IBV_WC_SEND);
  const ibv_wc wc = wait_for(ends.b.cq);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == 99);
  CHECK(wc.byte_len == (count == 2 ? 50 : 20));
  CHECK(((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == (opcode == IBV_WR_SEND_WITH_IMM));
  if (opcode == IBV_WR_SEND_WITH_IMM) CHECK(ntohl(wc.imm_data) == kImm);
  CHECK(same(ends, 0, kPeer, 20) && (count == 1 || same(ends, 100, kPeer + 20, 30)));
}

void write(Ends& ends, Poster& poster, ibv_wr_opcode opcode, unsigned flags = 0) {
  fill(ends);
  const bool with_imm = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (with_imm) ends.receive(kPeer, 0);
  ibv_sge entry = ends.sge(0, (flags & IBV_SEND_INLINE) != 0 ? 64 : 4000);
  ibv_send_wr wr = request(opcode, &entry, 1);
  wr.send_flags = flags;
  wr.wr.rdma = {.remote_addr = ends.address(kPeer), .rkey = ends.mr->rkey};
  wr.imm_data = htonl(kImm);
  poster.post(wr, IBV_WC_RDMA_WRITE);
  if (with_imm) {
    const ibv_wc wc = wait_for(ends.b.cq);
    CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && ntohl(wc.imm_data) == kImm);
    CHECK(wc.byte_len == entry.length);
  }
  const std::time_t until = std::time(nullptr) + 10;  // UC completes before the data has arrived
  while (!same(ends, 0, kPeer, entry.length) && std::time(nullptr) < until)
    ibv_poll_cq(ends.b.cq, 0, nullptr);
  CHECK(same(ends, 0, kPeer, entry.length));
}

uint64_t word(Ends& ends, size_t offset) {
  uint64_t value;
  std::memcpy(&value, ends.at(offset), sizeof value);
  return value;
}
void set_word(Ends& ends, size_t offset, uint64_t value) {
  std::memcpy(ends.at(offset), &value, sizeof value);
}

void read_and_atomics(Ends& ends, Poster& poster) {
  fill(ends);
  ibv_sge entry = ends.sge(0, 3000);
  ibv_send_wr wr = request(IBV_WR_RDMA_READ, &entry, 1);
  wr.wr.rdma = {.remote_addr = ends.address(kPeer), .rkey = ends.mr->rkey};
  std::memset(ends.at(0), 0, 3000);
  poster.post(wr, IBV_WC_RDMA_READ);
  CHECK(same(ends, 0, kPeer, 3000));

  entry = ends.sge(0, 8);
  set_word(ends, kPeer, 40);
  wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &entry, 1);
  wr.wr.atomic = {.remote_addr = ends.address(kPeer), .compare_add = 2, .rkey = ends.mr->rkey};
  poster.post(wr, IBV_WC_FETCH_ADD);
  CHECK(word(ends, 0) == 40 && word(ends, kPeer) == 42);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.compare_add = 42;
  wr.wr.atomic.swap = 7;
  poster.post(wr, IBV_WC_COMP_SWAP);
  CHECK(word(ends, 0) == 42 && word(ends, kPeer) == 7);

  set_word(ends, 0, 0x1122334455667788);
  wr = request(IBV_WR_ATOMIC_WRITE, &entry, 1);
  wr.wr.rdma = {.remote_addr = ends.address(kPeer), .rkey = ends.mr->rkey};
  poster.post(wr, IBV_WC_ATOMIC_WRITE);
  CHECK(word(ends, kPeer) == 0x1122334455667788);
}

// A window of type 2: bound, used by the peer's WRITE, invalidated from here and from there.
void windows(Ends& ends, Poster& poster, Poster& peer) {
  ibv_mw* mw = ibv_alloc_mw(ends.pd, IBV_MW_TYPE_2);
  REQUIRE(mw != nullptr);
  for (const bool by_peer : {false, true}) {
    fill(ends);
    ibv_send_wr wr = request(IBV_WR_BIND_MW, nullptr, 0);
    wr.bind_mw = {.mw = mw,
                  .rkey = ibv_inc_rkey(mw->rkey),
                  .bind_info = {.mr = ends.mr,
                                .addr = ends.address(kPeer),
                                .length = 512,
                                .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
    poster.post(wr, IBV_WC_BIND_MW);
    CHECK(mw->rkey == wr.bind_mw.rkey);
    ibv_sge entry = ends.sge(0, 64);
    wr = request(IBV_WR_RDMA_WRITE, &entry, 1);
    wr.wr.rdma = {.remote_addr = ends.address(kPeer), .rkey = mw->rkey};
    std::swap(ends.a, ends.b);
    peer.post(wr, IBV_WC_RDMA_WRITE);
    CHECK(same(ends, 0, kPeer, 64));
    if (by_peer) {
      ends.receive(4096, 64);
      wr = request(IBV_WR_SEND_WITH_INV, &entry, 1);
      wr.invalidate_rkey = mw->rkey;
      peer.post(wr, IBV_WC_SEND);
      const ibv_wc wc = wait_for(ends.b.cq);
      CHECK((wc.wc_flags & IBV_WC_WITH_INV) != 0 && wc.invalidated_rkey == mw->rkey);
    }
    std::swap(ends.a, ends.b);
    if (by_peer) continue;
    wr = request(IBV_WR_LOCAL_INV, nullptr, 0);
    wr.invalidate_rkey = mw->rkey;
    poster.post(wr, IBV_WC_LOCAL_INV);
  }
  CHECK(ibv_dealloc_mw(mw) == 0);
}

void window_of_type_1(Ends& ends, Poster& peer) {
  ibv_mw* mw = ibv_alloc_mw(ends.pd, IBV_MW_TYPE_1);
  REQUIRE(mw != nullptr);
  ibv_mw_bind bind{.wr_id = 5,
                   .send_flags = IBV_SEND_SIGNALED,
                   .bind_info = {.mr = ends.mr,
                                 .addr = ends.address(kPeer),
                                 .length = 512,
                                 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
  const uint32_t before = mw->rkey;
  CHECK_ERROR(0, ibv_bind_mw(ends.a.qp, mw, &bind));
  CHECK(mw->rkey != before);
  const ibv_wc wc = wait_for(ends.a.cq);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW && wc.wr_id == 5);
  fill(ends);
  ibv_sge entry = ends.sge(0, 64);
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &entry, 1);
  wr.wr.rdma = {.remote_addr = ends.address(kPeer), .rkey = mw->rkey};
  std::swap(ends.a, ends.b);
  peer.post(wr, IBV_WC_RDMA_WRITE);
  std::swap(ends.a, ends.b);
  CHECK(same(ends, 0, kPeer, 64));
  CHECK(ibv_dealloc_mw(mw) == 0);
}

uint64_t operations(ibv_qp_type type) {
  constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  constexpr uint64_t kOthers = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                               IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
                               IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |
                               IBV_QP_EX_WITH_ATOMIC_WRITE;
  if (type == IBV_QPT_UD) return kSends;
  return type == IBV_QPT_UC ? kSends | kWrites : kSends | kWrites | kOthers;
}

void connected(ibv_qp_type type, Way way) {
  Ends ends(type, way == Way::extended ? operations(type) : 0);
  Poster poster(ends, way);
  send(ends, poster, IBV_WR_SEND);
  send(ends, poster, IBV_WR_SEND, IBV_SEND_INLINE | IBV_SEND_SOLICITED);
  send(ends, poster, IBV_WR_SEND_WITH_IMM, IBV_SEND_FENCE);
  write(ends, poster, IBV_WR_RDMA_WRITE);
  write(ends, poster, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE);
  write(ends, poster, IBV_WR_RDMA_WRITE_WITH_IMM);
  if (type == IBV_QPT_UC) return;
  Poster peer(ends, way);
  read_and_atomics(ends, poster);
  windows(ends, poster, peer);
  window_of_type_1(ends, peer);
}

void datagrams(Way way) {
  Ends ends(IBV_QPT_UD, way == Way::extended ? operations(IBV_QPT_UD) : 0);
  Poster poster(ends, way);
  ibv_ah_attr address = own_address(ends.context);
  ibv_ah* ah = ibv_create_ah(ends.pd, &address);
  REQUIRE(ah != nullptr);
  fill(ends);
  ends.receive(kPeer, 40 + 256);
  ibv_sge entry = ends.sge(0, 200);
  ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM, &entry, 1);
  wr.imm_data = htonl(kImm);
  wr.wr.ud = {.ah = ah, .remote_qpn = ends.b.qp->qp_num, .remote_qkey = kQkey};
  poster.post(wr, IBV_WC_SEND);
  ibv_wc wc = wait_for(ends.b.cq);
  CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == 240);
  CHECK((wc.wc_flags & IBV_WC_GRH) != 0 && ntohl(wc.imm_data) == kImm);  //= roce:C-AV-134
  CHECK(wc.src_qp == ends.a.qp->qp_num);
  CHECK(same(ends, 0, kPeer + 40, 200));
  auto* header = reinterpret_cast<ibv_grh*>(ends.at(kPeer));
  ibv_ah_attr reply{};
  CHECK_ERROR(0, ibv_init_ah_from_wc(ends.context, 1, &wc, header, &reply));
  CHECK(std::memcmp(&reply.grh.dgid, &address.grh.dgid, sizeof reply.grh.dgid) == 0);
  ibv_ah* back = ibv_create_ah_from_wc(ends.pd, &wc, header, 1);
  CHECK(back != nullptr && ibv_destroy_ah(back) == 0);
  CHECK(ibv_destroy_ah(ah) == 0);
}

}  // namespace

void check_opcodes() {
  for (const Way way : {Way::post_send, Way::extended}) {
    connected(IBV_QPT_RC, way);
    connected(IBV_QPT_UC, way);
    datagrams(way);
  }
}
