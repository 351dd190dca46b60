// SPDX-License-Identifier: BSD-3-Clause
// The file of this process that holds a symbol: the program, or a shared library. What was
// installed beside it is found from there.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace weft::base {

// Absolute, without links; "" if no file holds `symbol`.
inline std::string file_of(const void* symbol) {
  Dl_info info = {};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::unique_ptr<char, decltype(&std::free)> path(realpath(info.dli_fname, nullptr),
                                                         &std::free);
  return path == nullptr ? std::string() : std::string(path.get());
}

}  // namespace weft::base
