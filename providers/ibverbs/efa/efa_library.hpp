// SPDX-License-Identifier: BSD-3-Clause
// libefa, loaded at run time when a device is opened with `,srd`, as libibverbs is (library.hpp).
// What it says of a device, and the words that the newer ones of its headers have.
#pragma once

#include <infiniband/efadv.h>

#include "providers/ibverbs/context/library.hpp"

namespace weft::ibverbs {

// All of them are there since rdma-core 43, and in Debian 12.
#define WEFT_EFA_FUNCTIONS(each) \
  each(query_device) each(query_ah) each(create_qp_ex) each(create_cq) each(cq_from_ibv_cq_ex)

struct EfaLibrary {
#define WEFT_EFA_FUNCTION(name) decltype(&::efadv_##name) name = nullptr;
  WEFT_EFA_FUNCTIONS(WEFT_EFA_FUNCTION)
#undef WEFT_EFA_FUNCTION
};

// Bits of efadv_device_attr::device_caps. The header of Debian 12 has the first three.
inline constexpr uint32_t kEfaRead = 1u << 0;
inline constexpr uint32_t kEfaRnrRetry = 1u << 1;
inline constexpr uint32_t kEfaCqWithSgid = 1u << 2;
inline constexpr uint32_t kEfaWrite = 1u << 3;

// Loaded once for each name and never unloaded. Errors: not_found (says what to install),
// not_supported (a library of that name without one of the functions).
Result<const EfaLibrary*> load_efa(const std::string& name);

}  // namespace weft::ibverbs
