// SPDX-License-Identifier: BSD-3-Clause
// Refusals of calls: see errors.hpp.
#include "lib/adapters/verbs/errors.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {
namespace {

bool is_logged() noexcept {
  static const bool logged = [] {
    const char* value = std::getenv("WEFT_VERBS_LOG");
    return value != nullptr && std::strcmp(value, "0") != 0 && *value != '\0';
  }();
  return logged;
}

}  // namespace

int refuse(int error, const char* call, const char* format, ...) noexcept {
  if (is_logged()) {
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "weft: %s: %s (%s)\n", call, reason, strerrorname_np(error));
  }
  errno = error;
  return error;
}

int refuse(const char* call, const Error& error) noexcept {
  return refuse(errno_of(error.code), call, "%s", error.message.c_str());
}

int not_supported(const char* call, const char* reason) noexcept {
  return refuse(EOPNOTSUPP, call, "%s", reason);
}

}  // namespace weft::drop_in

int weft_verbs_refuse(int error, const char* call, const char* reason) {
  weft::drop_in::refuse(error, call, "%s", reason);
  return -1;
}
