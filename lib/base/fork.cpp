// SPDX-License-Identifier: BSD-3-Clause
// See fork.hpp: a pthread_atfork handler counts in the child.
#include "lib/base/fork.hpp"

#include <pthread.h>

namespace weft::base {

std::atomic<uint32_t> ForkMark::forks_{0};

ForkMark::ForkMark() noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks_.fetch_add(1); });
  (void)registered;
  born_ = forks_.load(std::memory_order_relaxed);
}

}  // namespace weft::base
