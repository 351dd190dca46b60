// SPDX-License-Identifier: BSD-3-Clause
// The names of IBVERBS_1.0, the interface of libibverbs 1.0 (2005), whose structures differ from
// today's: programs of that age find no device. Also the names by which drivers of devices call
// the library (IBVERBS_PRIVATE_34): libmlx5 and libefa, which programs link, are loaded with them,
// and register drivers that are never asked.
#include "lib/adapters/verbs/references.hpp"

using namespace weft::drop_in;

namespace {

constexpr const char* kFormer = "libibverbs 1.0";

}  // namespace

extern "C" {

void* weft_former_pointer() {
  not_supported(kFormer, "the program was built for an interface of 2005: build it again");
  return nullptr;
}
int weft_former_int() {
  return not_supported(kFormer, "the program was built for an interface of 2005: build it again");
}

#define WEFT_FORMER(KIND, NAME) __asm__(".symver weft_former_" #KIND "," #NAME "@IBVERBS_1.0");
WEFT_FORMER(pointer, ibv_alloc_pd)
WEFT_FORMER(pointer, ibv_create_ah)
WEFT_FORMER(pointer, ibv_create_cq)
WEFT_FORMER(pointer, ibv_create_qp)
WEFT_FORMER(pointer, ibv_create_srq)
WEFT_FORMER(pointer, ibv_get_device_list)
WEFT_FORMER(pointer, ibv_get_device_name)
WEFT_FORMER(pointer, ibv_open_device)
WEFT_FORMER(pointer, ibv_reg_mr)
WEFT_FORMER(int, ibv_ack_async_event)
WEFT_FORMER(int, ibv_ack_cq_events)
WEFT_FORMER(int, ibv_attach_mcast)
WEFT_FORMER(int, ibv_close_device)
WEFT_FORMER(int, ibv_dealloc_pd)
WEFT_FORMER(int, ibv_dereg_mr)
WEFT_FORMER(int, ibv_destroy_ah)
WEFT_FORMER(int, ibv_destroy_cq)
WEFT_FORMER(int, ibv_destroy_qp)
WEFT_FORMER(int, ibv_destroy_srq)
WEFT_FORMER(int, ibv_detach_mcast)
WEFT_FORMER(int, ibv_free_device_list)
WEFT_FORMER(int, ibv_get_async_event)
WEFT_FORMER(int, ibv_get_cq_event)
WEFT_FORMER(int, ibv_get_device_guid)
WEFT_FORMER(int, ibv_modify_qp)
WEFT_FORMER(int, ibv_modify_srq)
WEFT_FORMER(int, ibv_query_device)
WEFT_FORMER(int, ibv_query_gid)
WEFT_FORMER(int, ibv_query_pkey)
WEFT_FORMER(int, ibv_query_port)
WEFT_FORMER(int, ibv_query_qp)
WEFT_FORMER(int, ibv_query_srq)
WEFT_FORMER(int, ibv_resize_cq)
__asm__(".symver weft_former_int,ibv_register_driver@IBVERBS_1.1");

// A driver that is registered is asked for devices of the kernel only, of which there are none.
void verbs_register_driver_34() {}
void __verbs_log() {}
void verbs_set_ops() {}
void verbs_uninit_context() {}
void verbs_init_cq() {}
void* _verbs_init_and_alloc_context() { return weft_former_pointer(); }
void* verbs_open_device() { return weft_former_pointer(); }
bool verbs_allow_disassociate_destroy = false;

#define WEFT_DRIVER_CALL(NAME) \
  int NAME() { return not_supported(#NAME, "no device of the kernel is in use"); }
WEFT_DRIVER_CALL(__ioctl_final_num_attrs)
WEFT_DRIVER_CALL(execute_ioctl)
WEFT_DRIVER_CALL(ibv_read_ibdev_sysfs_file)
WEFT_DRIVER_CALL(ibv_cmd_advise_mr)
WEFT_DRIVER_CALL(ibv_cmd_alloc_dm)
WEFT_DRIVER_CALL(ibv_cmd_alloc_mw)
WEFT_DRIVER_CALL(ibv_cmd_alloc_pd)
WEFT_DRIVER_CALL(ibv_cmd_attach_mcast)
WEFT_DRIVER_CALL(ibv_cmd_close_xrcd)
WEFT_DRIVER_CALL(ibv_cmd_create_ah)
WEFT_DRIVER_CALL(ibv_cmd_create_counters)
WEFT_DRIVER_CALL(ibv_cmd_create_cq)
WEFT_DRIVER_CALL(ibv_cmd_create_cq_ex)
WEFT_DRIVER_CALL(ibv_cmd_create_cq_ex2)  // rdma-core 56
WEFT_DRIVER_CALL(ibv_cmd_create_flow)
WEFT_DRIVER_CALL(ibv_cmd_create_flow_action_esp)
WEFT_DRIVER_CALL(ibv_cmd_create_qp)
WEFT_DRIVER_CALL(ibv_cmd_create_qp_ex)
WEFT_DRIVER_CALL(ibv_cmd_create_qp_ex2)
WEFT_DRIVER_CALL(ibv_cmd_create_rwq_ind_table)
WEFT_DRIVER_CALL(ibv_cmd_create_srq)
WEFT_DRIVER_CALL(ibv_cmd_create_srq_ex)
WEFT_DRIVER_CALL(ibv_cmd_create_wq)
WEFT_DRIVER_CALL(ibv_cmd_dealloc_mw)
WEFT_DRIVER_CALL(ibv_cmd_dealloc_pd)
WEFT_DRIVER_CALL(ibv_cmd_dereg_mr)
WEFT_DRIVER_CALL(ibv_cmd_destroy_ah)
WEFT_DRIVER_CALL(ibv_cmd_destroy_counters)
WEFT_DRIVER_CALL(ibv_cmd_destroy_cq)
WEFT_DRIVER_CALL(ibv_cmd_destroy_flow)
WEFT_DRIVER_CALL(ibv_cmd_destroy_flow_action)
WEFT_DRIVER_CALL(ibv_cmd_destroy_qp)
WEFT_DRIVER_CALL(ibv_cmd_destroy_rwq_ind_table)
WEFT_DRIVER_CALL(ibv_cmd_destroy_srq)
WEFT_DRIVER_CALL(ibv_cmd_destroy_wq)
WEFT_DRIVER_CALL(ibv_cmd_detach_mcast)
WEFT_DRIVER_CALL(ibv_cmd_free_dm)
WEFT_DRIVER_CALL(ibv_cmd_get_context)
WEFT_DRIVER_CALL(ibv_cmd_modify_cq)
WEFT_DRIVER_CALL(ibv_cmd_modify_flow_action_esp)
WEFT_DRIVER_CALL(ibv_cmd_modify_qp)
WEFT_DRIVER_CALL(ibv_cmd_modify_qp_ex)
WEFT_DRIVER_CALL(ibv_cmd_modify_srq)
WEFT_DRIVER_CALL(ibv_cmd_modify_wq)
WEFT_DRIVER_CALL(ibv_cmd_open_qp)
WEFT_DRIVER_CALL(ibv_cmd_open_xrcd)
WEFT_DRIVER_CALL(ibv_cmd_poll_cq)
WEFT_DRIVER_CALL(ibv_cmd_post_recv)
WEFT_DRIVER_CALL(ibv_cmd_post_send)
WEFT_DRIVER_CALL(ibv_cmd_post_srq_recv)
WEFT_DRIVER_CALL(ibv_cmd_query_context)
WEFT_DRIVER_CALL(ibv_cmd_query_device_any)
WEFT_DRIVER_CALL(ibv_cmd_query_mr)
WEFT_DRIVER_CALL(ibv_cmd_query_port)
WEFT_DRIVER_CALL(ibv_cmd_query_qp)
WEFT_DRIVER_CALL(ibv_cmd_query_srq)
WEFT_DRIVER_CALL(ibv_cmd_read_counters)
WEFT_DRIVER_CALL(ibv_cmd_reg_dm_mr)
WEFT_DRIVER_CALL(ibv_cmd_reg_dmabuf_mr)
WEFT_DRIVER_CALL(ibv_cmd_reg_mr)
WEFT_DRIVER_CALL(ibv_cmd_req_notify_cq)
WEFT_DRIVER_CALL(ibv_cmd_rereg_mr)
WEFT_DRIVER_CALL(ibv_cmd_resize_cq)
}
