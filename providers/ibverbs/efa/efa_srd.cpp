// SPDX-License-Identifier: BSD-3-Clause
// See efa_srd.hpp.
#include "providers/ibverbs/efa/efa_srd.hpp"

#include <algorithm>

namespace weft::ibverbs {

uint32_t SrdPeers::number_of(const Gid& address) {
  const std::lock_guard lock(mutex_);
  const auto known = numbers_.find(address);
  if (known != numbers_.end()) return known->second;
  if (addresses_.size() < kMost) {
    addresses_.push_back(address);
    return numbers_[address] = static_cast<uint32_t>(addresses_.size() - 1);
  }
  const uint32_t number = next_;
  next_ = (next_ + 1) % kMost;
  numbers_.erase(addresses_[number]);
  addresses_[number] = address;
  return numbers_[address] = number;
}

std::optional<Gid> SrdPeers::address_of(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  if (number >= addresses_.size()) return std::nullopt;
  return addresses_[number];
}

SrdLimits srd_limits(const efadv_device_attr& efa, const ibv_device_attr& device,
                     const ibv_port_attr& port) noexcept {
  SrdLimits limits;
  limits.caps = efa.device_caps;
  limits.max_send_sge = std::max<uint32_t>(1, efa.max_sq_sge);
  limits.max_recv_sge = std::max<uint32_t>(1, efa.max_rq_sge);
  limits.max_rdma_sge = static_cast<uint32_t>(std::max(1, device.max_sge_rd));
  limits.max_inline = efa.inline_buf_size;
  limits.max_send = port.max_msg_sz;
  const bool rdma = (efa.device_caps & (kEfaRead | kEfaWrite)) != 0;
  limits.max_rdma = rdma ? efa.max_rdma_size : 0;
  return limits;
}

void describe_srd(DeviceAttributes& a, const SrdLimits& limits,
                  const efadv_device_attr& efa) noexcept {
  a.qp_type = QpType::srd;
  a.has_uc = a.has_ud = a.has_xrc = a.has_atomics = false;
  a.has_read = limits.has(kEfaRead);
  a.has_write = limits.has(kEfaWrite);
  a.max_send = limits.max_send;
  a.max_message = std::max(limits.max_send, limits.max_rdma);
  a.max_qp_wr = std::min(efa.max_sq_wr, efa.max_rq_wr);
  a.max_sge = std::min(limits.max_send_sge, limits.max_recv_sge);
  a.max_inline = limits.max_inline;
}

uint64_t send_operations(uint32_t caps) noexcept {
  uint64_t operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  if ((caps & kEfaRead) != 0) operations |= IBV_QP_EX_WITH_RDMA_READ;
  if ((caps & kEfaWrite) != 0)
    operations |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  return operations;
}

Result<efadv_device_attr> query_efa(const EfaLibrary& efa, ibv_context& context) {
  efadv_device_attr said{};
  if (const int error = efa.query_device(&context, &said, sizeof said); error != 0)
    return Error{Code::not_supported,
                 std::string(context.device->name) +
                     " is not an EFA, the only device with SRD: leave `srd` out of the device "
                     "string; weft's own SRD runs over any network: srd+udp:INTERFACE"};
  return said;
}

}  // namespace weft::ibverbs
