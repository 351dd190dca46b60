// SPDX-License-Identifier: BSD-3-Clause
// See translate.hpp.
#include "providers/ibverbs/queue/translate.hpp"

#include <arpa/inet.h>

#include <bit>
#include <cstring>

namespace weft::ibverbs {

namespace {
// Their bit where our flag is set.
template <FlagSet E>
unsigned picked(E set, E flag, unsigned bit) noexcept {
  return has(set, flag) ? bit : 0;
}
}  // namespace

ibv_qp_type to_verbs(QpType type) noexcept {
  if (type == QpType::xrc_initiator) return IBV_QPT_XRC_SEND;
  if (type == QpType::xrc_target) return IBV_QPT_XRC_RECV;
  if (type == QpType::ud) return IBV_QPT_UD;
  return type == QpType::uc ? IBV_QPT_UC : IBV_QPT_RC;
}

ibv_qp_state to_verbs(QpState state) noexcept {
  switch (state) {
    case QpState::reset:
      return IBV_QPS_RESET;
    case QpState::init:
      return IBV_QPS_INIT;
    case QpState::rtr:
      return IBV_QPS_RTR;
    case QpState::rts:
      return IBV_QPS_RTS;
    case QpState::sqd:
      return IBV_QPS_SQD;
    case QpState::sqe:
      return IBV_QPS_SQE;
    case QpState::err:
      break;
  }
  return IBV_QPS_ERR;
}

QpState from_verbs(ibv_qp_state state) noexcept {
  switch (state) {
    case IBV_QPS_RESET:
      return QpState::reset;
    case IBV_QPS_INIT:
      return QpState::init;
    case IBV_QPS_RTR:
      return QpState::rtr;
    case IBV_QPS_RTS:
      return QpState::rts;
    case IBV_QPS_SQD:
      return QpState::sqd;
    case IBV_QPS_SQE:
      return QpState::sqe;
    default:
      return QpState::err;
  }
}

unsigned to_verbs(Access access) noexcept {
  return picked(access, Access::local_write, IBV_ACCESS_LOCAL_WRITE) |
         picked(access, Access::remote_write, IBV_ACCESS_REMOTE_WRITE) |
         picked(access, Access::remote_read, IBV_ACCESS_REMOTE_READ) |
         picked(access, Access::remote_atomic, IBV_ACCESS_REMOTE_ATOMIC) |
         picked(access, Access::window_bind, IBV_ACCESS_MW_BIND) |
         picked(access, Access::zero_based, IBV_ACCESS_ZERO_BASED) |
         picked(access, Access::on_demand, IBV_ACCESS_ON_DEMAND);
}

ibv_wr_opcode to_verbs(Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::send_with_imm:
      return IBV_WR_SEND_WITH_IMM;
    case Opcode::send_with_invalidate:
      return IBV_WR_SEND_WITH_INV;
    case Opcode::write:
      return IBV_WR_RDMA_WRITE;
    case Opcode::write_with_imm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Opcode::read:
      return IBV_WR_RDMA_READ;
    case Opcode::compare_swap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Opcode::fetch_add:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Opcode::bind_window:
      return IBV_WR_BIND_MW;
    case Opcode::local_invalidate:
      return IBV_WR_LOCAL_INV;
    default:
      return IBV_WR_SEND;
  }
}

ibv_mtu mtu_to_verbs(uint32_t bytes) noexcept {
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);
}

uint32_t mtu_from_verbs(ibv_mtu mtu) noexcept { return 128u << mtu; }

ibv_gid to_verbs(const Gid& gid) noexcept {
  ibv_gid raw;
  std::memcpy(raw.raw, gid.bytes.data(), sizeof raw.raw);
  return raw;
}

Gid from_verbs(const ibv_gid& raw) noexcept {
  Gid gid;
  std::memcpy(gid.bytes.data(), raw.raw, sizeof raw.raw);
  return gid;
}

ibv_rate rate_to_verbs(Rate rate) noexcept {
  struct Row {
    int64_t gbps_tenths;
    ibv_rate rate;
  };
  constexpr Row kRows[] = {
      {25, IBV_RATE_2_5_GBPS},   {50, IBV_RATE_5_GBPS},     {100, IBV_RATE_10_GBPS},
      {140, IBV_RATE_14_GBPS},   {200, IBV_RATE_20_GBPS},   {250, IBV_RATE_25_GBPS},
      {280, IBV_RATE_28_GBPS},   {300, IBV_RATE_30_GBPS},   {400, IBV_RATE_40_GBPS},
      {500, IBV_RATE_50_GBPS},   {560, IBV_RATE_56_GBPS},   {600, IBV_RATE_60_GBPS},
      {800, IBV_RATE_80_GBPS},   {1000, IBV_RATE_100_GBPS}, {1120, IBV_RATE_112_GBPS},
      {1200, IBV_RATE_120_GBPS}, {1680, IBV_RATE_168_GBPS}, {2000, IBV_RATE_200_GBPS},
      {3000, IBV_RATE_300_GBPS}};
  if (rate.bits_per_second == 0) return IBV_RATE_MAX;
  ibv_rate found = kRows[0].rate;
  for (const Row& row : kRows)
    if (row.gbps_tenths * 100'000'000 <= rate.bits_per_second) found = row.rate;
  return found;
}

ibv_ah_attr to_verbs(const AddressVector& path, uint8_t port, uint8_t gid_index) noexcept {
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = port;
  attributes.grh.dgid = to_verbs(path.destination);
  attributes.grh.sgid_index = gid_index;
  attributes.grh.flow_label = path.flow_label;
  attributes.grh.hop_limit = path.hop_limit;
  attributes.grh.traffic_class = path.traffic_class;
  attributes.static_rate = static_cast<uint8_t>(rate_to_verbs(path.static_rate));
  return attributes;
}

Status from_verbs(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return Status::success;
    case IBV_WC_LOC_LEN_ERR:
      return Status::local_length_error;
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
      return Status::local_qp_operation_error;
    case IBV_WC_LOC_PROT_ERR:
      return Status::local_protection_error;
    case IBV_WC_WR_FLUSH_ERR:
      return Status::flushed;
    case IBV_WC_MW_BIND_ERR:
      return Status::mw_bind_error;
    case IBV_WC_BAD_RESP_ERR:
      return Status::bad_response;
    case IBV_WC_LOC_ACCESS_ERR:
      return Status::local_access_error;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return Status::remote_invalid_request;
    case IBV_WC_REM_ACCESS_ERR:
      return Status::remote_access_error;
    case IBV_WC_REM_OP_ERR:
      return Status::remote_operation_error;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return Status::retry_exceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return Status::rnr_retry_exceeded;
    case IBV_WC_REM_ABORT_ERR:
      return Status::remote_aborted;
    default:
      return Status::fatal;
  }
}

void take_receive(const ibv_wc& done, Completion& c) noexcept {
  const bool immediate = (done.wc_flags & IBV_WC_WITH_IMM) != 0;
  const bool written = done.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  c.type = immediate || written ? WorkType::recv_with_imm : WorkType::recv;
  c.source_qp = QpNum{done.src_qp};
  if (written) c.flags = c.flags | CompletionFlags::rdma_write;
  if ((done.wc_flags & IBV_WC_GRH) != 0) c.flags = c.flags | CompletionFlags::grh;
  if (c.type == WorkType::recv_with_imm) {
    c.flags = c.flags | CompletionFlags::with_imm;
    c.imm_or_key = ntohl(done.imm_data);
  } else if ((done.wc_flags & IBV_WC_WITH_INV) != 0) {
    c.flags = c.flags | CompletionFlags::with_invalidate;
    c.imm_or_key = done.invalidated_rkey;
  }
}

}  // namespace weft::ibverbs
