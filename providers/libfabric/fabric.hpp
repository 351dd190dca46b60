// SPDX-License-Identifier: BSD-3-Clause
// libfabric, loaded when the first device is opened; its objects with an owner, and its error
// numbers as errors of weft. All but the functions of Library are called through libfabric's
// objects.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <string>

#include "weft/result.hpp"

namespace weft::libfabric {

struct Close {
  template <class Object>
  void operator()(Object* object) const noexcept {
    fi_close(&object->fid);
  }
};
template <class Object>
using Owned = std::unique_ptr<Object, Close>;

struct Library {
  decltype(&fi_getinfo) getinfo = nullptr;
  decltype(&fi_freeinfo) freeinfo = nullptr;
  decltype(&fi_dupinfo) dupinfo = nullptr;
  decltype(&fi_fabric) fabric = nullptr;
  decltype(&fi_strerror) strerror = nullptr;
};
// The same for all callers, and never unloaded. Error: not_found.
Result<const Library*> load_library();

struct FreeInfo {
  decltype(&fi_freeinfo) free = nullptr;
  void operator()(fi_info* info) const noexcept { free(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// "WHAT: TEXT OF LIBFABRIC"; `code` is what a call returned, negative.
Error error_of(int code, const std::string& what);

}  // namespace weft::libfabric
