// SPDX-License-Identifier: BSD-3-Clause
// The libibverbs of the system beside ours (WEFT_VERBS_REAL=1), for the devices of the kernel. Its
// drivers bind to the name libibverbs.so.1, which is us, so it is loaded into a link namespace of
// its own. Exported functions pass on what belongs to its devices; the inline functions of verbs.h
// call it through its own contexts.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <type_traits>

namespace weft::drop_in {

#define WEFT_REAL_FUNCTIONS(each)                                                                  \
  each(ibv_get_device_list) each(ibv_get_device_index) each(ibv_get_device_guid) each(             \
      ibv_open_device) each(ibv_close_device) each(ibv_query_device) each(ibv_query_port)          \
      each(ibv_query_gid) each(_ibv_query_gid_ex) each(_ibv_query_gid_table) each(ibv_query_pkey)  \
          each(ibv_get_pkey_index) each(ibv_get_async_event) each(ibv_ack_async_event)             \
              each(ibv_alloc_pd) each(ibv_dealloc_pd) each(ibv_reg_mr) each(ibv_reg_mr_iova) each( \
                  ibv_reg_mr_iova2) each(ibv_reg_dmabuf_mr) each(ibv_rereg_mr) each(ibv_dereg_mr)  \
                  each(ibv_create_comp_channel) each(ibv_destroy_comp_channel)                     \
                      each(ibv_get_cq_event) each(ibv_ack_cq_events) each(ibv_create_cq)           \
                          each(ibv_resize_cq) each(ibv_destroy_cq) each(ibv_create_srq)            \
                              each(ibv_modify_srq) each(ibv_query_srq) each(ibv_destroy_srq)       \
                                  each(ibv_create_qp) each(ibv_modify_qp) each(ibv_query_qp)       \
                                      each(ibv_destroy_qp) each(ibv_qp_to_qp_ex)                   \
                                          each(ibv_query_qp_data_in_order) each(ibv_set_ece) each( \
                                              ibv_query_ece) each(ibv_attach_mcast)                \
                                              each(ibv_detach_mcast) each(ibv_create_ah) each(     \
                                                  ibv_destroy_ah) each(ibv_init_ah_from_wc)        \
                                                  each(ibv_create_ah_from_wc) each(ibv_import_pd)  \
                                                      each(ibv_unimport_pd) each(ibv_import_mr)    \
                                                          each(ibv_unimport_mr)                    \
                                                              each(ibv_import_dm)                  \
                                                                  each(ibv_unimport_dm)            \
                                                                      each(ibv_fork_init)

struct RealLibrary {
#define WEFT_REAL_FUNCTION(name) decltype(&::name) name = nullptr;
  WEFT_REAL_FUNCTIONS(WEFT_REAL_FUNCTION)
#undef WEFT_REAL_FUNCTION
  // Null where it has none: one of drivers, and newer ones of rdma-core 59 and later.
  int (*ibv_query_gid_type)(ibv_context* context, uint8_t port, unsigned index,
                            int* type) = nullptr;
  ibv_mr* (*ibv_reg_mr_ex)(ibv_pd* pd, void* attr) = nullptr;
  int (*ibv_query_port_speed)(ibv_context* context, uint32_t port, uint64_t* speed) = nullptr;
  int* (*errno_location)() = nullptr;  // of the C library of its namespace
  ibv_device** devices = nullptr;      // its list, with a null at the end; never freed
};

// Loaded at the first call; null without WEFT_VERBS_REAL, or if it cannot be loaded (WEFT_VERBS_LOG
// says why).
const RealLibrary* real_library() noexcept;

// Whether an object of this context or this device belongs to it. Only where it is loaded.
bool is_real(const ibv_context* context) noexcept;
bool is_real(const ibv_device* device) noexcept;

// Calls a function of it, and sets errno as it has.
template <class Function, class... Arguments>
auto in_real(Function RealLibrary::*function, Arguments... arguments) noexcept {
  const RealLibrary& library = *real_library();
  if constexpr (std::is_void_v<decltype((library.*function)(arguments...))>) {
    (library.*function)(arguments...);
  } else {
    const auto result = (library.*function)(arguments...);
    errno = *library.errno_location();
    return result;
  }
}

// At the start of an exported function NAME: passes the call on where `OF`, a context or a device,
// belongs to the system's library. `OF` is not looked at unless that is loaded.
#define WEFT_FORWARD(OF, NAME, ...)                                           \
  if (weft::drop_in::real_library() != nullptr && weft::drop_in::is_real(OF)) \
  return weft::drop_in::in_real(&weft::drop_in::RealLibrary::NAME, __VA_ARGS__)

// Makes the calls through a context of it set our errno, too.
void set_errno_of_operations(ibv_context& context);

}  // namespace weft::drop_in
