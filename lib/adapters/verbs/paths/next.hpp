// SPDX-License-Identifier: BSD-3-Clause
// Interposition: this library defines functions of the C library, and calls the next definition of
// each, that of another preloaded library or of the C library.
//
// The next one is asked first, so what the machine has is always seen; the view answers for paths
// that the machine does not have.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cerrno>

#define WEFT_INTERPOSES extern "C" [[gnu::visibility("default")]]

namespace weft::paths {

template <class Function>
Function* next_function(std::atomic<void*>& found, const char* name) noexcept {
  void* address = found.load(std::memory_order_relaxed);
  if (address == nullptr) {
    address = ::dlsym(RTLD_NEXT, name);
    found.store(address, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(address);
}

// The next definition of `name`, of which a declaration is in scope.
#define WEFT_NEXT(name)                                                \
  ([]() noexcept {                                                     \
    static std::atomic<void*> found;                                   \
    return ::weft::paths::next_function<decltype(name)>(found, #name); \
  }())

// True if the machine has no such file, by the errno of a call that failed.
inline bool is_absent(int error) noexcept { return error == ENOENT || error == ENOTDIR; }

}  // namespace weft::paths
