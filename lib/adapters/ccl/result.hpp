// SPDX-License-Identifier: BSD-3-Clause
// What all functions of weft/nccl_compat.h have in common: weft's errors as NCCL's results, the
// text of the thread's last error, and the boundary that no exception passes.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "weft/nccl_compat.h"
#include "weft/result.hpp"

namespace weft::ccl {

// What a code of weft is called by NCCL.
ncclResult_t result_of(Code code) noexcept;
// Makes "FUNCTION: text" that of ncclGetLastError(NULL) in this thread. Long texts are cut.
ncclResult_t failed(ncclResult_t result, std::string_view text, const char* function) noexcept;
const char* last_error() noexcept;

inline Error wrong(std::string text) { return {Code::invalid_argument, std::move(text)}; }
inline Error misused(std::string text) { return {Code::bad_state, std::move(text)}; }

// Returns what body() says, a Result<void>; an exception becomes its code.
template <class Body>
ncclResult_t call(Body body, const char* function = __builtin_FUNCTION()) noexcept {
  try {
    const Result<void> done = body();
    if (done) return ncclSuccess;
    return failed(result_of(done.error().code), done.error().message, function);
  } catch (const std::bad_alloc&) {
    return failed(ncclSystemError, "out of memory", function);
  } catch (const std::exception& other) {
    return failed(ncclInternalError, other.what(), function);
  }
}

}  // namespace weft::ccl
