// SPDX-License-Identifier: BSD-3-Clause
// libibverbs, loaded at run time: this provider links nothing, so that programs start on machines
// without it, and so that a library of ours which exports the same names never meets it. Only
// exported functions stand here; posting, polling and arming go through the operations of an open
// context (the inline functions of verbs.h), as they do in every verbs program.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "lib/base/fork.hpp"
#include "weft/result.hpp"

namespace weft::ibverbs {

inline constexpr const char* kLibraryName = "libibverbs.so.1";

// All of them are there since rdma-core 15 and have not changed.
#define WEFT_IBVERBS_FUNCTIONS(each)                                                        \
  each(get_device_list) each(free_device_list) each(open_device) each(close_device)         \
      each(query_device) each(query_port) each(query_gid) each(get_async_event)             \
          each(ack_async_event) each(alloc_pd) each(dealloc_pd) each(reg_mr) each(dereg_mr) \
              each(create_comp_channel) each(destroy_comp_channel) each(create_cq)          \
                  each(destroy_cq) each(resize_cq) each(get_cq_event) each(ack_cq_events)   \
                      each(create_srq) each(modify_srq) each(destroy_srq) each(create_qp)   \
                          each(modify_qp) each(query_qp) each(destroy_qp) each(create_ah)   \
                              each(destroy_ah) each(attach_mcast) each(detach_mcast)        \
                                  each(fork_init)

struct Library {
#define WEFT_IBVERBS_FUNCTION(name) decltype(&::ibv_##name) name = nullptr;
  WEFT_IBVERBS_FUNCTIONS(WEFT_IBVERBS_FUNCTION)
#undef WEFT_IBVERBS_FUNCTION
  // Newer ones, null where the library has none: spelled out, for older headers lack them too.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, uint64_t offset, size_t length, uint64_t iova, int fd,
                           int access) = nullptr;  // rdma-core 34
  ibv_qp_ex* (*qp_to_qp_ex)(ibv_qp*) = nullptr;    // rdma-core 23
  ibv_mr* (*reg_mr_iova2)(ibv_pd*, void* address, size_t length, uint64_t iova,
                          unsigned access) = nullptr;  // rdma-core 28
  // Older, and null in a library that stands in for one.
  int (*rereg_mr)(ibv_mr*, int flags, ibv_pd*, void* address, size_t length, int access) = nullptr;
  int (*query_srq)(ibv_srq*, ibv_srq_attr*) = nullptr;
  // weft's own drop-in library, whose devices are weft's.
  bool is_drop_in = false;
};

// Loaded once for each name and never unloaded. Errors: not_found (says what to install),
// not_supported (a library of that name without one of the functions).
Result<const Library*> load_library(const std::string& name);

// An object of libibverbs, destroyed by `destroy`; not by a child of fork(), whose parent goes on
// using it.
template <class T>
struct Destroyer {
  int (*destroy)(T*) = nullptr;
  base::ForkMark mark{};
  void operator()(T* object) const noexcept {
    if (!mark.passed()) destroy(object);
  }
};
template <class T>
using Owned = std::unique_ptr<T, Destroyer<T>>;

template <class T>
Owned<T> own(T* object, int (*destroy)(T*)) {
  return Owned<T>(object, Destroyer<T>{destroy});
}

// What libibverbs has just said through errno (or returned), as our error: "WHAT: why", and what to
// do about it.
Error error_of(int error, const std::string& what);

}  // namespace weft::ibverbs
