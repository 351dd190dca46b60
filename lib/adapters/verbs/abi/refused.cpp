// SPDX-License-Identifier: BSD-3-Clause
// What no device of weft can do: objects of other processes, flow steering, work queues,
// counters. All say EOPNOTSUPP. So do calls of rdma-core 56 to 65 that are newer than
// our headers.
#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kNoBuffers = "the device has no buffers of its own";
constexpr const char* kNoSteering = "there is no flow steering";
constexpr const char* kNoCounters = "there are no counters of flows";
constexpr const char* kNoCompletionCounters = "there are no completion counters: poll the queue";
constexpr const char* kNoWorkQueues = "there are no work queues without a queue pair";
constexpr const char* kNoTagMatching = "there is no tag matching";
constexpr const char* kNotShared = "objects are not shared between processes";

template <class T>
T* null_not_supported(const char* call, const char* reason) noexcept {
  not_supported(call, reason);
  return nullptr;
}

void set_flow_operations(verbs_context& verbs) noexcept {
  verbs.ibv_create_flow = [](ibv_qp*, ibv_flow_attr*) {
    return null_not_supported<ibv_flow>("ibv_create_flow", kNoSteering);
  };
  verbs.ibv_destroy_flow = [](ibv_flow*) { return not_supported("ibv_destroy_flow", kNoSteering); };
  verbs.create_flow_action_esp = [](ibv_context*, ibv_flow_action_esp_attr*) {
    return null_not_supported<ibv_flow_action>("ibv_create_flow_action_esp", kNoSteering);
  };
  verbs.modify_flow_action_esp = [](ibv_flow_action*, ibv_flow_action_esp_attr*) {
    return not_supported("ibv_modify_flow_action_esp", kNoSteering);
  };
  verbs.destroy_flow_action = [](ibv_flow_action*) {
    return not_supported("ibv_destroy_flow_action", kNoSteering);
  };
  verbs.create_counters = [](ibv_context*, ibv_counters_init_attr*) {
    return null_not_supported<ibv_counters>("ibv_create_counters", kNoCounters);
  };
  verbs.destroy_counters = [](ibv_counters*) {
    return not_supported("ibv_destroy_counters", kNoCounters);
  };
  verbs.attach_counters_point_flow = [](ibv_counters*, ibv_counter_attach_attr*, ibv_flow*) {
    return not_supported("ibv_attach_counters_point_flow", kNoCounters);
  };
  verbs.read_counters = [](ibv_counters*, uint64_t*, uint32_t, uint32_t) {
    return not_supported("ibv_read_counters", kNoCounters);
  };
}

void set_queue_operations(verbs_context& verbs) noexcept {
  verbs.create_wq = [](ibv_context*, ibv_wq_init_attr*) {
    return null_not_supported<ibv_wq>("ibv_create_wq", kNoWorkQueues);
  };
  verbs.modify_wq = [](ibv_wq*, ibv_wq_attr*) {
    return not_supported("ibv_modify_wq", kNoWorkQueues);
  };
  verbs.destroy_wq = [](ibv_wq*) { return not_supported("ibv_destroy_wq", kNoWorkQueues); };
  verbs.create_rwq_ind_table = [](ibv_context*, ibv_rwq_ind_table_init_attr*) {
    return null_not_supported<ibv_rwq_ind_table>("ibv_create_rwq_ind_table", kNoWorkQueues);
  };
  verbs.destroy_rwq_ind_table = [](ibv_rwq_ind_table*) {
    return not_supported("ibv_destroy_rwq_ind_table", kNoWorkQueues);
  };
  verbs.post_srq_ops = [](ibv_srq*, ibv_ops_wr*, ibv_ops_wr**) {
    return not_supported("ibv_post_srq_ops", kNoTagMatching);
  };
}

}  // namespace

void set_refused_operations(verbs_context& verbs) noexcept {
  set_flow_operations(verbs);
  set_queue_operations(verbs);
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_context* ibv_import_device(int) {
  return null_not_supported<ibv_context>("ibv_import_device", kNotShared);
}
ibv_pd* ibv_import_pd(ibv_context* verbs, uint32_t handle) {
  WEFT_FORWARD(verbs, ibv_import_pd, verbs, handle);
  return null_not_supported<ibv_pd>("ibv_import_pd", kNotShared);
}
void ibv_unimport_pd(ibv_pd* pd) {
  WEFT_FORWARD(pd->context, ibv_unimport_pd, pd);
  not_supported("ibv_unimport_pd", kNotShared);
}
ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  WEFT_FORWARD(pd->context, ibv_import_mr, pd, handle);
  return null_not_supported<ibv_mr>("ibv_import_mr", kNotShared);
}
void ibv_unimport_mr(ibv_mr* mr) {
  WEFT_FORWARD(mr->context, ibv_unimport_mr, mr);
  not_supported("ibv_unimport_mr", kNotShared);
}
ibv_dm* ibv_import_dm(ibv_context* verbs, uint32_t handle) {
  WEFT_FORWARD(verbs, ibv_import_dm, verbs, handle);
  return null_not_supported<ibv_dm>("ibv_import_dm", kNotShared);
}
void ibv_unimport_dm(ibv_dm* dm) {
  WEFT_FORWARD(dm->context, ibv_unimport_dm, dm);
  not_supported("ibv_unimport_dm", kNotShared);
}

// Enhanced connection establishment is an agreement between devices of one vendor.
int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  WEFT_FORWARD(qp->context, ibv_set_ece, qp, ece);
  return not_supported("ibv_set_ece", "there is no ECE");
}
int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  WEFT_FORWARD(qp->context, ibv_query_ece, qp, ece);
  *ece = {};
  return not_supported("ibv_query_ece", "there is no ECE");
}

// Names of IBVERBS_1.15 to 1.18, whose structures our headers do not have: no argument is read. The
// names are given to the linker alone: newer headers declare them.
#define WEFT_REFUSED(TYPE, NAME, ...)        \
  TYPE weft_refused_##NAME() __asm__(#NAME); \
  TYPE weft_refused_##NAME() { return __VA_ARGS__; }
#define WEFT_REFUSED_POINTER(NAME, REASON) \
  WEFT_REFUSED(void*, NAME, null_not_supported<void>(#NAME, REASON))
#define WEFT_REFUSED_INT(NAME, REASON) WEFT_REFUSED(int, NAME, not_supported(#NAME, REASON))
#define WEFT_REFUSED_FD(NAME, REASON) WEFT_REFUSED(int, NAME, (not_supported(#NAME, REASON), -1))
extern "C" {
WEFT_REFUSED_POINTER(ibv_alloc_dmah, "there are no DMA handles")
WEFT_REFUSED_INT(ibv_dealloc_dmah, "there are no DMA handles")
WEFT_REFUSED_FD(ibv_dm_export_dmabuf_fd, kNoBuffers)
WEFT_REFUSED_POINTER(ibv_alloc_buf, kNoBuffers)
WEFT_REFUSED_INT(ibv_free_buf, kNoBuffers)
WEFT_REFUSED_POINTER(ibv_reg_buf_mr, kNoBuffers)
WEFT_REFUSED_FD(ibv_export_buf_dmabuf_fd, kNoBuffers)
WEFT_REFUSED_POINTER(ibv_create_comp_cntr, kNoCompletionCounters)
WEFT_REFUSED_INT(_ibv_query_comp_cntr_caps, kNoCompletionCounters)
WEFT_REFUSED_INT(ibv_destroy_comp_cntr, kNoCompletionCounters)
WEFT_REFUSED_INT(ibv_inc_comp_cntr, kNoCompletionCounters)
WEFT_REFUSED_INT(ibv_inc_err_comp_cntr, kNoCompletionCounters)
WEFT_REFUSED_INT(ibv_qp_attach_comp_cntr, kNoCompletionCounters)
WEFT_REFUSED_INT(ibv_read_comp_cntr, kNoCompletionCounters)
WEFT_REFUSED_INT(ibv_read_err_comp_cntr, kNoCompletionCounters)
WEFT_REFUSED_INT(ibv_set_comp_cntr, kNoCompletionCounters)
WEFT_REFUSED_INT(ibv_set_err_comp_cntr, kNoCompletionCounters)
}
