// SPDX-License-Identifier: BSD-3-Clause
// The text of a file of the view: at most a page, as in sysfs.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace weft::paths {

struct Text {
  char bytes[4096];
  size_t length = 0;

  // Appends; what does not fit is cut off.
  [[gnu::format(printf, 2, 3)]] void print(const char* format, ...) noexcept {
    va_list arguments;
    va_start(arguments, format);
    const int wanted = std::vsnprintf(bytes + length, sizeof bytes - length, format, arguments);
    va_end(arguments);
    if (wanted < 0) return;
    length += static_cast<size_t>(wanted);
    if (length >= sizeof bytes) length = sizeof bytes - 1;
  }
};

}  // namespace weft::paths
