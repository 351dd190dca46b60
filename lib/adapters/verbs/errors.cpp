// SPDX-License-Identifier: BSD-3-Clause
// Refusals of calls: see errors.hpp.
#include "lib/adapters/verbs/errors.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/adapters/verbs/objects.hpp"
#include "lib/base/log/log.hpp"

namespace weft::drop_in {
namespace {

// WEFT_VERBS_LOG=1 is WEFT_LOG=verbs=info.
bool is_logged() noexcept {
  [[maybe_unused]] static const bool once = [] {
    const char* const value = std::getenv("WEFT_VERBS_LOG");
    if (value != nullptr && std::strcmp(value, "0") != 0 && *value != '\0')
      base::log_from(base::Subsystem::verbs, LogLevel::info);
    return true;
  }();
  return base::logs(base::Subsystem::verbs, LogLevel::info);
}

}  // namespace

int refuse(int error, const char* call, const char* format, ...) noexcept {
  if (is_logged()) {
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    base::log(base::Subsystem::verbs, LogLevel::info, [&] {
      return std::string(call) + ": " + reason + " (" + strerrorname_np(error) + ")";
    });
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
