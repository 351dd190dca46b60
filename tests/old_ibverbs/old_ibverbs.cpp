// SPDX-License-Identifier: BSD-3-Clause
// A libibverbs as old as the provider ibverbs takes: it exports the functions that the provider
// must have (WEFT_IBVERBS_FUNCTIONS of library.hpp) and none of the newer ones, and hands each call
// on to the library that WEFT_OLD_IBVERBS_OF names, libibverbs.so.1 if nothing.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "providers/ibverbs/library.hpp"

namespace {

// All arguments and results of these are integers or pointers, six at most.
using Function = long (*)(long, long, long, long, long, long);

Function real(const char* name) {
  const char* const named = std::getenv("WEFT_OLD_IBVERBS_OF");
  void* const handle =
      dlopen(named != nullptr ? named : weft::ibverbs::kLibraryName, RTLD_NOW | RTLD_LOCAL);
  void* const function = handle != nullptr ? dlsym(handle, name) : nullptr;
  if (function != nullptr) return reinterpret_cast<Function>(function);
  std::fprintf(stderr, "old_ibverbs: no %s: %s\n", name, dlerror());
  std::abort();
}

}  // namespace

#define HAND_ON(name)                                                    \
  long old_##name(long, long, long, long, long, long) asm("ibv_" #name); \
  long old_##name(long a, long b, long c, long d, long e, long f) {      \
    static const Function function = real("ibv_" #name);                 \
    return function(a, b, c, d, e, f);                                   \
  }
extern "C" {
WEFT_IBVERBS_FUNCTIONS(HAND_ON)
}
