// SPDX-License-Identifier: BSD-3-Clause
// Access rights of verbs in those of weft.
#pragma once

#include <infiniband/verbs.h>

#include "weft/types.hpp"

namespace weft::drop_in {

// IBV_ACCESS_FLUSH_GLOBAL and IBV_ACCESS_FLUSH_PERSISTENT of newer headers.
inline constexpr unsigned kFlushGlobal = 1 << 8;
inline constexpr unsigned kFlushPersistent = 1 << 9;

// Rights that mean nothing in software: pages need no size, and writes of a region have no order
// that could be relaxed.
inline constexpr unsigned kAccessWithoutEffect =
    unsigned{IBV_ACCESS_HUGETLB} | unsigned{IBV_ACCESS_OPTIONAL_RANGE};
inline constexpr unsigned kAccessOfRegion = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                            IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                            IBV_ACCESS_ON_DEMAND | kFlushGlobal | kFlushPersistent;

// Those that mean something to a queue pair; programs set others, too.
inline constexpr unsigned kAccessOfQueuePair = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                               IBV_ACCESS_REMOTE_ATOMIC | kFlushGlobal |
                                               kFlushPersistent;

constexpr Access access_of(unsigned flags) noexcept {
  Access access = Access::none;
  if ((flags & IBV_ACCESS_LOCAL_WRITE) != 0) access = access | Access::local_write;
  if ((flags & IBV_ACCESS_REMOTE_WRITE) != 0) access = access | Access::remote_write;
  if ((flags & IBV_ACCESS_REMOTE_READ) != 0) access = access | Access::remote_read;
  if ((flags & IBV_ACCESS_REMOTE_ATOMIC) != 0) access = access | Access::remote_atomic;
  if ((flags & IBV_ACCESS_MW_BIND) != 0) access = access | Access::window_bind;
  if ((flags & IBV_ACCESS_ZERO_BASED) != 0) access = access | Access::zero_based;
  if ((flags & IBV_ACCESS_ON_DEMAND) != 0) access = access | Access::on_demand;
  if ((flags & kFlushGlobal) != 0) access = access | Access::flush_global;
  if ((flags & kFlushPersistent) != 0) access = access | Access::flush_persistent;
  return access;
}
constexpr unsigned access_flags_of(Access access) noexcept {
  unsigned flags = 0;
  if (has(access, Access::local_write)) flags |= IBV_ACCESS_LOCAL_WRITE;
  if (has(access, Access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (has(access, Access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
  if (has(access, Access::remote_atomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  if (has(access, Access::flush_global)) flags |= kFlushGlobal;
  if (has(access, Access::flush_persistent)) flags |= kFlushPersistent;
  return flags;
}

}  // namespace weft::drop_in
