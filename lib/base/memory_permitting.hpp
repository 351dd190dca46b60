// SPDX-License-Identifier: BSD-3-Clause
// What can wait, or be refused, when the process has no more memory: packet code must not end it.
#pragma once

#include <new>

namespace weft::base {

// Runs `work`, which allocates. False: there was no memory for it, and `work` has seen to it that
// nothing has changed.
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
