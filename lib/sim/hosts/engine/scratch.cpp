// SPDX-License-Identifier: BSD-3-Clause
// See scratch.hpp.
#include "lib/sim/hosts/engine/scratch.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>

#include "lib/base/check.hpp"

namespace weft::sim::engines {

void must(const Result<void>& done) {
  if (!done) std::fprintf(stderr, "weft: %s\n", done.error().message.c_str());
  WEFT_CHECK(done);
}

Scratch::Scratch(std::span<const flow::FlowSpec> flows) : size_(1) {
  for (const flow::FlowSpec& flow : flows) size_ = std::max<size_t>(size_, flow.bytes);
  size_ = std::min<size_t>(size_, kLongest);
  void* const memory =
      ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  WEFT_CHECK(memory != MAP_FAILED);
  data_ = static_cast<std::byte*>(memory);
}

Scratch::~Scratch() { ::munmap(data_, size_); }

}  // namespace weft::sim::engines
