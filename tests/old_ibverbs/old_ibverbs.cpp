// SPDX-License-Identifier: BSD-3-Clause
// The libibverbs of rdma-core 15: it exports what that had of what the provider ibverbs calls and
// nothing newer, and hands each call on to the library that WEFT_OLD_IBVERBS_OF names,
// libibverbs.so.1 if nothing.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

// All arguments and results of these are integers or pointers, six at most.
using Function = long (*)(long, long, long, long, long, long);

Function real(const char* name) {
  const char* const named = std::getenv("WEFT_OLD_IBVERBS_OF");
  void* const handle = dlopen(named != nullptr ? named : "libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const function = handle != nullptr ? dlsym(handle, name) : nullptr;
  if (function != nullptr) return reinterpret_cast<Function>(function);
  std::fprintf(stderr, "old_ibverbs: no %s: %s\n", name, dlerror());
  std::abort();
}

}  // namespace

#define HAND_ON(name)                                         \
  long name(long a, long b, long c, long d, long e, long f) { \
    static const Function function = real(#name);             \
    return function(a, b, c, d, e, f);                        \
  }
extern "C" {
HAND_ON(ibv_get_device_list)
HAND_ON(ibv_free_device_list)
HAND_ON(ibv_open_device)
HAND_ON(ibv_close_device)
HAND_ON(ibv_query_device)
HAND_ON(ibv_query_port)
HAND_ON(ibv_query_gid)
HAND_ON(ibv_get_async_event)
HAND_ON(ibv_ack_async_event)
HAND_ON(ibv_alloc_pd)
HAND_ON(ibv_dealloc_pd)
HAND_ON(ibv_reg_mr)
HAND_ON(ibv_dereg_mr)
HAND_ON(ibv_create_comp_channel)
HAND_ON(ibv_destroy_comp_channel)
HAND_ON(ibv_create_cq)
HAND_ON(ibv_destroy_cq)
HAND_ON(ibv_resize_cq)
HAND_ON(ibv_get_cq_event)
HAND_ON(ibv_ack_cq_events)
HAND_ON(ibv_create_srq)
HAND_ON(ibv_modify_srq)
HAND_ON(ibv_destroy_srq)
HAND_ON(ibv_create_qp)
HAND_ON(ibv_modify_qp)
HAND_ON(ibv_query_qp)
HAND_ON(ibv_destroy_qp)
HAND_ON(ibv_create_ah)
HAND_ON(ibv_destroy_ah)
HAND_ON(ibv_attach_mcast)
HAND_ON(ibv_detach_mcast)
HAND_ON(ibv_fork_init)
}
