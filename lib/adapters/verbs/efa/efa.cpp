// SPDX-License-Identifier: BSD-3-Clause
// The drop-in libefa.so.1: SRD queue pairs on devices of weft that have them (srd, or an EFA behind
// the provider `ibverbs`), for programs of efadv.h. Devices of the system's library are not EFAs
// here. The newer functions of rdma-core 50 to 65 are at the end.
#include <infiniband/efadv.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

#include "lib/adapters/verbs/objects.hpp"

namespace {

using weft::DeviceAttributes;

// Of newer headers: EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE.
constexpr uint32_t kCanWrite = 1 << 3;

// Null where the device has no SRD: errno is EOPNOTSUPP.
const DeviceAttributes* srd_attributes(ibv_context* verbs, const char* call) noexcept {
  const weft::Device* const device = weft_verbs_srd_device(verbs);
  if (device != nullptr) return &device->attributes();
  weft_verbs_refuse(EOPNOTSUPP, call,
                    "the device has no SRD: WEFT_VERBS_DEVICES names one such as srd+udp:lo");
  return nullptr;
}

// Returns the error.
int refuse(int error, const char* call, const char* reason) noexcept {
  weft_verbs_refuse(error, call, reason);
  return error;
}

template <class Integer>
Integer clamped(uint64_t value) noexcept {
  return static_cast<Integer>(std::min<uint64_t>(value, std::numeric_limits<Integer>::max()));
}

// Whether a structure of `size` bytes is zero behind the members that this library knows.
bool is_known(const void* structure, size_t known, size_t size) noexcept {
  const auto* const bytes = static_cast<const unsigned char*>(structure);
  return std::all_of(bytes + std::min(known, size), bytes + size,
                     [](unsigned char byte) { return byte == 0; });
}

ibv_qp* create_qp(ibv_context* verbs, ibv_qp_init_attr_ex* attr, const efadv_qp_init_attr* efa,
                  uint32_t size) noexcept {
  constexpr const char* kCall = "efadv_create_qp_ex";
  if (srd_attributes(verbs, kCall) == nullptr) return nullptr;
  constexpr size_t kKnown = offsetof(efadv_qp_init_attr, driver_qp_type) + sizeof(uint32_t);
  const auto fails = [&](int error, const char* reason) {
    return refuse(error, kCall, reason), nullptr;
  };
  if (attr->qp_type != IBV_QPT_DRIVER) return fails(EINVAL, "qp_type must be IBV_QPT_DRIVER");
  if (size < kKnown || efa->comp_mask != 0)
    return fails(EINVAL, "the structure is too short, or its comp_mask is not 0");
  if (efa->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD)
    return fails(EOPNOTSUPP, "driver_qp_type must be EFADV_QP_DRIVER_TYPE_SRD");
  if (!is_known(efa, kKnown, size))
    return fails(EOPNOTSUPP, "flags, sl and wr_flags of newer headers must be 0");
  constexpr uint32_t kTaken = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((attr->comp_mask & ~kTaken) != 0)
    return fails(EOPNOTSUPP, "comp_mask has more than PD and SEND_OPS_FLAGS");
  if (attr->srq != nullptr) return fails(EINVAL, "SRD takes no shared receive queue");
  return weft_verbs_create_srd_qp(verbs, attr);
}

}  // namespace

extern "C" {

int efadv_query_device(ibv_context* verbs, efadv_device_attr* attr, uint32_t size) {
  constexpr const char* kCall = "efadv_query_device";
  const DeviceAttributes* const has = srd_attributes(verbs, kCall);
  if (has == nullptr) return EOPNOTSUPP;
  if (size < offsetof(efadv_device_attr, reserved))
    return refuse(EINVAL, kCall, "the structure is shorter than its first version");
  efadv_device_attr all{};
  all.max_sq_wr = all.max_rq_wr = has->max_qp_wr;
  all.max_sq_sge = all.max_rq_sge = clamped<uint16_t>(has->max_sge);
  all.inline_buf_size = clamped<uint16_t>(has->max_inline);
  all.device_caps = EFADV_DEVICE_ATTR_CAPS_RNR_RETRY | EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID;
  if (has->has_read) all.device_caps |= EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
  if (has->has_write) all.device_caps |= kCanWrite;
  all.max_rdma_size = clamped<uint32_t>(has->max_message);
  std::memset(attr, 0, size);
  std::memcpy(attr, &all, std::min<size_t>(size, sizeof all));
  return 0;
}

ibv_qp* efadv_create_qp_ex(ibv_context* verbs, ibv_qp_init_attr_ex* attr, efadv_qp_init_attr* efa,
                           uint32_t size) {
  return create_qp(verbs, attr, efa, size);
}

ibv_qp* efadv_create_driver_qp(ibv_pd* pd, ibv_qp_init_attr* attr, uint32_t driver_qp_type) {
  ibv_qp_init_attr_ex all{.qp_context = attr->qp_context,
                          .send_cq = attr->send_cq,
                          .recv_cq = attr->recv_cq,
                          .srq = attr->srq,
                          .cap = attr->cap,
                          .qp_type = attr->qp_type,
                          .sq_sig_all = attr->sq_sig_all,
                          .comp_mask = IBV_QP_INIT_ATTR_PD,
                          .pd = pd};
  const efadv_qp_init_attr efa{.comp_mask = 0, .driver_qp_type = driver_qp_type, .reserved = {}};
  ibv_qp* const qp = create_qp(pd->context, &all, &efa, sizeof efa);
  if (qp != nullptr) attr->cap = all.cap;
  return qp;
}

int efadv_query_ah(ibv_ah* ah, efadv_ah_attr* attr, uint32_t size) {
  constexpr const char* kCall = "efadv_query_ah";
  if (srd_attributes(ah->context, kCall) == nullptr) return EOPNOTSUPP;
  if (size < offsetof(efadv_ah_attr, reserved))
    return refuse(EINVAL, kCall, "the structure is shorter than its first version");
  std::memset(attr, 0, size);
  attr->ahn = static_cast<uint16_t>(ah->handle);
  return 0;
}

ibv_cq_ex* efadv_create_cq(ibv_context* verbs, ibv_cq_init_attr_ex* attr, efadv_cq_init_attr* efa,
                           uint32_t size) {
  constexpr const char* kCall = "efadv_create_cq";
  if (srd_attributes(verbs, kCall) == nullptr) return nullptr;
  if (size < sizeof *efa || efa->comp_mask != 0)
    return refuse(EINVAL, kCall, "the structure is too short, or its comp_mask is not 0"), nullptr;
  if ((efa->wc_flags & ~uint64_t{EFADV_WC_EX_WITH_SGID}) != 0 || !is_known(efa, sizeof *efa, size))
    return refuse(EOPNOTSUPP, kCall, "only EFADV_WC_EX_WITH_SGID is known"), nullptr;
  return ibv_create_cq_ex(verbs, attr);
}

efadv_cq* efadv_cq_from_ibv_cq_ex(ibv_cq_ex* cq) {
  static_assert(offsetof(efadv_cq, wc_read_sgid) ==
                offsetof(weft::drop_in::SenderReader, read_sgid));
  return reinterpret_cast<efadv_cq*>(weft_verbs_sender_reader(cq));
}

// Of newer headers. No interconnect has a number; queues are not in memory that a program can map.
int efadv_query_mr(ibv_mr* mr, void* attr, uint32_t size) {
  if (srd_attributes(mr->context, "efadv_query_mr") == nullptr) return EOPNOTSUPP;
  std::memset(attr, 0, size);
  return 0;
}

int efadv_query_qp_wqs(ibv_qp*, void*, void*, uint32_t) {
  return refuse(EOPNOTSUPP, "efadv_query_qp_wqs", "queues are not in memory of the program");
}

int efadv_query_cq(ibv_cq*, void*, uint32_t) {
  return refuse(EOPNOTSUPP, "efadv_query_cq", "queues are not in memory of the program");
}

int efadv_get_max_sq_depth(ibv_context* verbs, void*, uint32_t) {
  const DeviceAttributes* const has = srd_attributes(verbs, "efadv_get_max_sq_depth");
  return has != nullptr ? clamped<int>(has->max_qp_wr) : -EOPNOTSUPP;
}

int efadv_get_max_rq_depth(ibv_context* verbs, void*, uint32_t) {
  const DeviceAttributes* const has = srd_attributes(verbs, "efadv_get_max_rq_depth");
  return has != nullptr ? clamped<int>(has->max_qp_wr) : -EOPNOTSUPP;
}

void* efadv_qp_from_ibv_qp_ex(ibv_qp_ex*) {
  refuse(EOPNOTSUPP, "efadv_qp_from_ibv_qp_ex", "there are no processing hints");
  return nullptr;
}

void* efadv_create_comp_cntr(ibv_context*, void*, void*, uint32_t) {
  refuse(EOPNOTSUPP, "efadv_create_comp_cntr", "there are no completion counters");
  return nullptr;
}
}
