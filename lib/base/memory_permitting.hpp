// SPDX-License-Identifier: BSD-3-Clause
// Work that may fail when the process is out of memory: packet handling must not throw.
#pragma once

#include <new>

namespace weft::base {

// Runs `work`, which allocates. False: std::bad_alloc; `work` guarantees that nothing has changed.
template <class Work>
bool memory_permitting(Work work) noexcept {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace weft::base
