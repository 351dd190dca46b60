// SPDX-License-Identifier: BSD-3-Clause
// What a device can do: ibv_query_device, ibv_query_device_ex and the clock of its timestamps.
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/memory/memory.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr uint32_t kHcaCoreClockKhz = 1'000'000;  // timestamps are nanoseconds
constexpr uint32_t kVendorId = 0xFFFFFF;          // no OUI: a device in software, as rxe
// Programs take a device with SRD for an EFA by these.
constexpr uint32_t kEfaVendorId = 0x1D0F, kEfaPartId = 0xEFA0;

// IBV_DEVICE_FLUSH_GLOBAL, _FLUSH_PERSISTENT and _ATOMIC_WRITE of newer headers.
constexpr uint64_t kFlushAndAtomicWrite = 7ULL << 38;

int clamped(uint64_t value) noexcept {
  return static_cast<int>(std::min<uint64_t>(value, INT_MAX));
}

unsigned capability_flags(const DeviceAttributes& has) noexcept {
  unsigned flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                   IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN |
                   IBV_DEVICE_N_NOTIFY_CQ;
  if (has.max_mw != 0) flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  if (has.resizes_srq) flags |= IBV_DEVICE_SRQ_RESIZE;
  if (has.invalidates_regions) flags |= IBV_DEVICE_MEM_MGT_EXTENSIONS;
  if (has.has_xrc) flags |= IBV_DEVICE_XRC;
  return flags;
}

void fill(const Context& context, ibv_device_attr& attr) noexcept {
  const DeviceAttributes& has = context.device.attributes();
  attr = {};
  std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "0.1.0");
  attr.node_guid = attr.sys_image_guid = context.entry->guid;
  attr.max_mr_size = has.max_mr_size;
  attr.page_size_cap = ~static_cast<uint64_t>(::sysconf(_SC_PAGESIZE) - 1);
  const bool is_efa = has.qp_type == QpType::srd;
  attr.vendor_id = is_efa ? kEfaVendorId : kVendorId;
  attr.vendor_part_id = is_efa ? kEfaPartId : 0;
  attr.max_qp = clamped(has.max_qp);
  attr.max_qp_wr = clamped(has.max_qp_wr);
  attr.device_cap_flags = capability_flags(has);
  attr.max_sge = attr.max_sge_rd = clamped(has.max_sge);
  attr.max_cq = clamped(has.max_cq);
  attr.max_mr = clamped(has.max_mr);
  attr.max_pd = clamped(has.max_pd);
  attr.max_ah = clamped(has.max_ah);
  attr.max_mw = clamped(has.max_mw);
  attr.max_srq = clamped(has.max_srq);
  attr.max_srq_wr = clamped(has.max_srq_wr);
  attr.max_srq_sge = clamped(has.max_srq_sge);
  attr.max_cqe = clamped(has.max_cqe);
  attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = clamped(has.max_rd_atomic);
  attr.max_res_rd_atom = clamped(static_cast<uint64_t>(has.max_rd_atomic) * has.max_qp);
  attr.atomic_cap = has.has_atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  attr.max_mcast_grp = has.has_ud ? 1024 : 0;
  attr.max_mcast_qp_attach = has.has_ud ? clamped(has.max_qp) : 0;
  attr.max_total_mcast_qp_attach = attr.max_mcast_qp_attach;
  attr.max_pkeys = 1;
  attr.phys_port_cnt = 1;
}

void fill_odp(const Context& context, ibv_device_attr_ex& attr) noexcept {
  const DeviceAttributes& has = context.device.attributes();
  if (!has.has_on_demand) return;
  constexpr uint32_t kRequester = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
  constexpr uint32_t kReceiver = IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr uint32_t kReliable =
      kRequester | kReceiver | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  attr.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  attr.odp_caps.per_transport_caps.rc_odp_caps = kReliable;
  if (has.has_uc) attr.odp_caps.per_transport_caps.uc_odp_caps = kRequester | kReceiver;
  if (has.has_ud) attr.odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND | kReceiver;
  if (has.has_xrc) attr.xrc_odp_caps = kReliable & ~uint32_t{IBV_ODP_SUPPORT_RECV};
}

ibv_packet_pacing_caps packet_pacing_of(const Context& context) noexcept {
  if (!context.device.attributes().has_rate_limit) return {};
  constexpr uint32_t kTypes = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD;
  return {.qp_rate_limit_min = 1, .qp_rate_limit_max = UINT32_MAX, .supported_qpts = kTypes};
}

int query_device_ex(ibv_context* verbs, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t size) noexcept {
  constexpr const char* kCall = "ibv_query_device_ex";
  if (input != nullptr && input->comp_mask != 0)
    return refuse(EINVAL, kCall, "comp_mask of the input is 0x%x, and must be 0", input->comp_mask);
  if (size < offsetof(ibv_device_attr_ex, comp_mask) + sizeof attr->comp_mask)
    return refuse(EINVAL, kCall, "attr_size %zu holds no ibv_device_attr", size);
  const Context& context = context_of(verbs);
  ibv_device_attr_ex all{};
  fill(context, all.orig_attr);
  fill_odp(context, all);
  all.completion_timestamp_mask = UINT64_MAX;
  all.hca_core_clock = kHcaCoreClockKhz;
  all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
  if (context.device.attributes().has_flush) all.device_cap_flags_ex |= kFlushAndAtomicWrite;
  all.packet_pacing_caps = packet_pacing_of(context);
  all.cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX};
  all.max_dm_size = kMaxDeviceMemory;
  all.phys_port_cnt_ex = 1;
  // The structure may be longer than ours: those of newer headers have more members.
  std::memset(attr, 0, size);
  std::memcpy(attr, &all, std::min(size, sizeof all));
  return 0;
}

int query_rt_values(ibv_context* verbs, ibv_values_ex* values) noexcept {
  const uint32_t wanted = values->comp_mask;
  if ((wanted & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0)
    return refuse(EOPNOTSUPP, "ibv_query_rt_values_ex", "comp_mask 0x%x: only RAW_CLOCK is known",
                  wanted);
  values->comp_mask = 0;
  if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) == 0) return 0;
  const int64_t ns = (context_of(verbs).device.now() - Instant{}).ns();
  values->raw_clock = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  return 0;
}

}  // namespace

void set_query_operations(verbs_context& verbs) noexcept {
  verbs.query_device_ex = query_device_ex;
  verbs.query_rt_values = query_rt_values;
}

}  // namespace weft::drop_in

int ibv_query_device(ibv_context* verbs, ibv_device_attr* attr) {
  WEFT_FORWARD(verbs, ibv_query_device, verbs, attr);
  weft::drop_in::fill(weft::drop_in::context_of(verbs), *attr);
  return 0;
}
