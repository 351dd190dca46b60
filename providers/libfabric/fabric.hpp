// SPDX-License-Identifier: BSD-3-Clause
// Objects of libfabric with an owner, and its error numbers as errors of weft.
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

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// "WHAT: TEXT OF LIBFABRIC"; `code` is what a call returned, negative.
Error error_of(int code, const std::string& what);

}  // namespace weft::libfabric
