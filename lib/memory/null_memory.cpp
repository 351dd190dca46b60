// SPDX-License-Identifier: BSD-3-Clause
// See null_memory.hpp.
#include "lib/memory/null_memory.hpp"

#include <sys/mman.h>

#include <new>

#include "lib/base/check.hpp"

namespace weft::memory {
namespace {

struct NullMemory {
  std::byte* zeros = nullptr;
  std::byte* sink = nullptr;
};

std::byte* map(int protection) {
  void* const at =
      mmap(nullptr, kNullLength, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(at);
}

NullMemory map_both() {
  NullMemory made;
  made.zeros = map(PROT_READ);
  try {
    made.sink = map(PROT_READ | PROT_WRITE);
  } catch (const std::bad_alloc&) {
    munmap(made.zeros, kNullLength);
    throw;
  }
  return made;
}

const NullMemory& null_memory() {
  static const NullMemory both = map_both();  // to the end of the process
  return both;
}

}  // namespace

void prepare_null_memory() { WEFT_CHECK(null_memory().sink != nullptr); }
std::byte* null_zeros() noexcept { return null_memory().zeros; }
std::byte* null_sink() noexcept { return null_memory().sink; }

}  // namespace weft::memory
