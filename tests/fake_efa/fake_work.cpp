// SPDX-License-Identifier: BSD-3-Clause
// Posting and polling of the stand-in: fake_state.hpp.
#include <unistd.h>

#include <algorithm>

#include "tests/fake_efa/fake_state.hpp"

namespace fake_efa {

namespace {

uint16_t handle_of(const Pd* pd, const ibv_gid& gid) {
  for (const Ah* ah : handles)
    if (ah->pd == pd && std::memcmp(ah->gid.raw, gid.raw, 16) == 0) return ah->number;
  return kNoHandle;
}

Mr* region_of(uint32_t key, uint64_t address, uint64_t length) {
  const auto found = regions.find(key);
  if (found == regions.end()) return nullptr;
  const auto base = reinterpret_cast<uint64_t>(found->second->mr.addr);
  if (address < base || address - base + length > found->second->mr.length) return nullptr;
  return found->second;
}

Work& begin(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint64_t operation) {
  Qp& qp = of(ex);
  if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_SQD) qp.error = EINVAL;
  if ((ex->wr_flags & IBV_SEND_SIGNALED) == 0) qp.error = EINVAL;
  if ((ex->wr_flags & ~(IBV_SEND_SIGNALED | IBV_SEND_INLINE)) != 0) qp.error = EINVAL;
  if ((qp.operations & operation) == 0) qp.error = EINVAL;
  qp.batch.push_back({});
  qp.batch.back().id = ex->wr_id;
  qp.batch.back().opcode = opcode;
  return qp.batch.back();
}

void send(ibv_qp_ex* ex) { begin(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND), call("wr_send"); }
void send_imm(ibv_qp_ex* ex, __be32 immediate) {
  begin(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM).immediate = immediate;
  if (refused_immediate != 0 && be32toh(immediate) == refused_immediate) of(ex).error = EINVAL;
  call("wr_send_imm:" + text(be32toh(immediate)));
}
void rdma(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint64_t operation, uint32_t rkey, uint64_t remote) {
  Work& work = begin(ex, opcode, operation);
  work.rkey = rkey;
  work.remote = remote;
}
void write(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote) {
  rdma(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote), call("wr_rdma_write");
}
void write_imm(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote, __be32 immediate) {
  rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, remote);
  of(ex).batch.back().immediate = immediate;
  call("wr_rdma_write_imm:" + text(be32toh(immediate)));
}
void read(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote) {
  rdma(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote), call("wr_rdma_read");
}
void set_sges(ibv_qp_ex* ex, size_t count, const ibv_sge* sges) {
  Qp& qp = of(ex);
  call("wr_set_sge_list:" + text(count));
  const bool is_rdma = qp.batch.back().rkey != 0;
  if (count > (is_rdma ? 1 : qp.cap.max_send_sge)) qp.error = EINVAL;
  qp.batch.back().sges.assign(sges, sges + count);
  if (is_rdma || qp.error != 0) return;
  for (size_t i = 0; i < count; ++i)
    qp.batch.back().bytes.append(reinterpret_cast<const char*>(sges[i].addr), sges[i].length);
}
void set_inline(ibv_qp_ex* ex, size_t count, const ibv_data_buf* pieces) {
  call("wr_set_inline_data_list:" + text(count));
  std::string& bytes = of(ex).batch.back().bytes;
  for (size_t i = 0; i < count; ++i)
    bytes.append(static_cast<const char*>(pieces[i].addr), pieces[i].length);
  if (bytes.size() > of(ex).cap.max_inline_data) of(ex).error = EINVAL;
}
void set_address(ibv_qp_ex* ex, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  Work& work = of(ex).batch.back();
  work.ah = reinterpret_cast<Ah*>(ah);
  work.qpn = qpn;
  work.qkey = qkey;
  call("wr_set_ud_addr");
}
void start(ibv_qp_ex* ex) {
  mutex.lock();
  of(ex).batch.clear();
  of(ex).error = 0;
  call("wr_start");
}

// A receive of `to` takes `length` bytes; false: there is none.
bool receive(Qp& from, Qp& to, const Work& work, uint32_t length, ibv_wc_opcode opcode) {
  if (to.receives.empty()) return false;
  const Receive taken = to.receives.front();
  to.receives.pop_front();
  size_t at = 0;
  for (const ibv_sge& sge : taken.sges) {
    const size_t part = std::min<size_t>(sge.length, work.bytes.size() - at);
    std::memcpy(reinterpret_cast<void*>(sge.addr), work.bytes.data() + at, part);
    at += part;
  }
  const bool immediate =
      work.opcode == IBV_WR_SEND_WITH_IMM || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  to.receive->add({taken.id, IBV_WC_SUCCESS, 0, to.ex.qp_base.qp_num, length, work.immediate,
                   from.ex.qp_base.qp_num, immediate, opcode,
                   unknown_peers ? kNoHandle : handle_of(to.pd, kGid),
                   unknown_peers ? ++last_unknown_peer : 0});
  return true;
}

ibv_wc_status execute(Qp& from, const Work& work) {
  const auto found = qps.find(work.qpn);
  if (found == qps.end() || std::memcmp(work.ah->gid.raw, kGid.raw, 16) != 0)
    return IBV_WC_RESP_TIMEOUT_ERR;
  Qp& to = *found->second;
  if (to.qkey != work.qkey) return IBV_WC_RESP_TIMEOUT_ERR;
  if (work.rkey == 0) {
    const auto length = static_cast<uint32_t>(work.bytes.size());
    return receive(from, to, work, length, IBV_WC_RECV) ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR;
  }
  const uint32_t length = work.sges.empty() ? 0 : work.sges[0].length;
  Mr* const region = region_of(work.rkey, work.remote, length);
  const bool reads = work.opcode == IBV_WR_RDMA_READ;
  const int right = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  if (region == nullptr || (region->access & right) == 0) return IBV_WC_GENERAL_ERR;
  if (handle_of(to.pd, kGid) == kNoHandle) return IBV_WC_GENERAL_ERR;  // "unknown peer"
  void* const there = reinterpret_cast<void*>(work.remote);
  void* const here = length != 0 ? reinterpret_cast<void*>(work.sges[0].addr) : nullptr;
  if (length != 0) std::memcpy(reads ? here : there, reads ? there : here, length);
  if (work.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) return IBV_WC_SUCCESS;
  return receive(from, to, work, length, IBV_WC_RECV_RDMA_WITH_IMM) ? IBV_WC_SUCCESS
                                                                    : IBV_WC_RNR_RETRY_EXC_ERR;
}

int complete(ibv_qp_ex* ex) {
  Qp& qp = of(ex);
  call("wr_complete");
  for (const Work& work : qp.batch) {
    if (qp.error != 0) break;
    const ibv_wc_opcode opcode =
        work.opcode == IBV_WR_RDMA_WRITE || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM
            ? IBV_WC_RDMA_WRITE
            : IBV_WC_SEND;  // libefa says so of READs too
    Entry entry{work.id, IBV_WC_SUCCESS, 0, ex->qp_base.qp_num, 0, 0, 0, false, opcode, kNoHandle};
    entry.status = is_forced ? forced.status : execute(qp, work);
    entry.vendor = is_forced ? forced.vendor : 0;
    is_forced = false;
    qp.send->add(entry);
  }
  const int error = qp.error;
  mutex.unlock();
  return error;
}

int next_poll(ibv_cq_ex* ex) {
  Cq& cq = of(ex);
  if (cq.entries.empty()) return ENOENT;
  cq.current = cq.entries.front();
  cq.entries.pop_front();
  if (qps.count(cq.current.qpn) == 0) return EINVAL;  // as libefa: its queue pair is gone
  ex->wr_id = cq.current.id;
  ex->status = cq.current.status;
  return 0;
}
int start_poll(ibv_cq_ex* ex, ibv_poll_cq_attr*) {
  mutex.lock();
  const int error = next_poll(ex);
  if (error != 0) mutex.unlock();
  return error;
}
void end_poll(ibv_cq_ex*) { mutex.unlock(); }
int read_sgid(efadv_cq* efa, ibv_gid* gid) {
  Cq& cq = *reinterpret_cast<Cq*>(reinterpret_cast<char*>(efa) - offsetof(Cq, efa));
  if (cq.current.handle != kNoHandle) return -ENOENT;
  *gid = kGid;
  std::memcpy(gid->raw + 4, &cq.current.unknown_peer, 4);
  return 0;
}

}  // namespace

int post_recv(ibv_qp* raw, ibv_recv_wr* work, ibv_recv_wr** bad) {
  const std::lock_guard lock(mutex);
  Qp& qp = of(reinterpret_cast<ibv_qp_ex*>(raw));
  for (; work != nullptr; work = work->next) {
    *bad = work;
    if (qp.state == IBV_QPS_RESET || qp.state == IBV_QPS_ERR) return EINVAL;
    if (qp.receives.size() == qp.cap.max_recv_wr) return ENOMEM;
    qp.receives.push_back({work->wr_id, {work->sg_list, work->sg_list + work->num_sge}});
  }
  return 0;
}

void Cq::add(const Entry& entry) {
  entries.push_back(entry);
  const uint64_t one = 1;
  if (armed && channel != nullptr) (void)!::write(channel->channel.fd, &one, sizeof one);
  armed = false;
}
int arm(ibv_cq* cq, int) {
  const std::lock_guard lock(mutex);
  reinterpret_cast<Cq*>(cq)->armed = true;
  return 0;
}

void fill(Qp& qp) {
  ibv_qp_ex& ex = qp.ex;
  ex.wr_start = start;
  ex.wr_complete = complete;
  ex.wr_send = send;
  ex.wr_send_imm = send_imm;
  ex.wr_rdma_write = write;
  ex.wr_rdma_write_imm = write_imm;
  ex.wr_rdma_read = read;
  ex.wr_set_sge_list = set_sges;
  ex.wr_set_inline_data_list = set_inline;
  ex.wr_set_ud_addr = set_address;
}

void fill(Cq& cq) {
  ibv_cq_ex& ex = cq.ex;
  ex.start_poll = start_poll;
  ex.next_poll = next_poll;
  ex.end_poll = end_poll;
  ex.read_opcode = [](ibv_cq_ex* c) { return of(c).current.opcode; };
  ex.read_vendor_err = [](ibv_cq_ex* c) { return of(c).current.vendor; };
  ex.read_byte_len = [](ibv_cq_ex* c) { return of(c).current.bytes; };
  ex.read_imm_data = [](ibv_cq_ex* c) { return __be32{of(c).current.immediate}; };
  ex.read_qp_num = [](ibv_cq_ex* c) { return of(c).current.qpn; };
  ex.read_src_qp = [](ibv_cq_ex* c) { return of(c).current.source; };
  ex.read_slid = [](ibv_cq_ex* c) { return uint32_t{of(c).current.handle}; };
  ex.read_wc_flags = [](ibv_cq_ex* c) {
    return of(c).current.has_immediate ? unsigned{IBV_WC_WITH_IMM} : 0u;
  };
  cq.efa.wc_read_sgid = read_sgid;
}

}  // namespace fake_efa
