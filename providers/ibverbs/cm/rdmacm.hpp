// SPDX-License-Identifier: BSD-3-Clause
// librdmacm, loaded at run time when the first channel is made, as libibverbs is when a device is
// opened (library.hpp): programs without a channel do not need it.
#pragma once

#include <rdma/rdma_cma.h>

#include "providers/ibverbs/context/library.hpp"

namespace weft::ibverbs {

inline constexpr const char* kCmLibraryName = "librdmacm.so.1";

// All of them are there since rdma-core 20.
#define WEFT_RDMACM_FUNCTIONS(each)                                                       \
  each(create_event_channel) each(destroy_event_channel) each(create_id) each(destroy_id) \
      each(bind_addr) each(resolve_addr) each(resolve_route) each(listen) each(connect)   \
          each(establish) each(accept) each(reject) each(disconnect) each(get_cm_event)   \
              each(ack_cm_event) each(get_src_port) each(get_dst_port) each(init_qp_attr) \
                  each(set_option)

struct CmLibrary {
#define WEFT_RDMACM_FUNCTION(name) decltype(&::rdma_##name) name = nullptr;
  WEFT_RDMACM_FUNCTIONS(WEFT_RDMACM_FUNCTION)
#undef WEFT_RDMACM_FUNCTION
};

// Loaded once for each name and never unloaded. Errors: not_found (says what to install),
// not_supported (a library of that name without one of the functions).
Result<const CmLibrary*> load_rdmacm(const std::string& name);

}  // namespace weft::ibverbs
