// SPDX-License-Identifier: BSD-3-Clause
// Refusals: errno as the manual pages of verbs say, and with WEFT_VERBS_LOG=1 a line on stderr that
// names the call, the argument and the reason.
#pragma once

#include <string>

#include "lib/adapters/verbs/errno_of.hpp"
#include "weft/result.hpp"

namespace weft::drop_in {

// Writes the line, sets errno to `error` and returns it. `format` as in printf.
[[gnu::format(printf, 3, 4), gnu::cold]] int refuse(int error, const char* call, const char* format,
                                                    ...) noexcept;
// The same with the code and message of an error of weft.
[[gnu::cold]] int refuse(const char* call, const Error& error) noexcept;
// EOPNOTSUPP: what no device of weft can do.
[[gnu::cold]] int not_supported(const char* call, const char* reason) noexcept;

}  // namespace weft::drop_in
