// SPDX-License-Identifier: BSD-3-Clause
// What reading the value of a failed Result does: see weft/result.hpp.
#include <cstdio>
#include <cstdlib>

#include "weft/result.hpp"

namespace weft {

BadResult::~BadResult() = default;

const char* BadResult::what() const noexcept { return error_.message.c_str(); }

void BadResult::raise(const Error& error) { throw BadResult(error); }

void BadResult::end(const Error& error) noexcept {
  std::fprintf(stderr, "weft: the value of a failed Result was read: %.*s: %s\n",
               static_cast<int>(name(error.code).size()), name(error.code).data(),
               error.message.c_str());
  std::abort();
}

}  // namespace weft
