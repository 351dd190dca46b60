// SPDX-License-Identifier: BSD-3-Clause
// Results and their texts.
#include "lib/adapters/ccl/result.hpp"

#include <algorithm>
#include <cstring>

#include "lib/adapters/ccl/communicator.hpp"

namespace weft::ccl {
namespace {

constexpr size_t kLongest = 1024;
thread_local char text_of_last[kLongest] = "";

}  // namespace

ncclResult_t result_of(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return ncclSuccess;
    case Code::invalid_argument:
    case Code::not_found:
      return ncclInvalidArgument;
    case Code::not_supported:
    case Code::bad_state:
    case Code::mismatch:
    case Code::canceled:
      return ncclInvalidUsage;
    case Code::would_block:
      return ncclInProgress;
    case Code::timed_out:
      return ncclTimeout;
    case Code::disconnected:
    case Code::peer_failed:
      return ncclRemoteError;
    default:
      return ncclSystemError;
  }
}

ncclResult_t failed(ncclResult_t result, std::string_view text, const char* function) noexcept {
  char* end = text_of_last;
  const auto append = [&](std::string_view part) {
    const size_t room = static_cast<size_t>(text_of_last + kLongest - 1 - end);
    end = std::copy_n(part.data(), std::min(part.size(), room), end);
  };
  if (function != nullptr) append(function), append(": ");
  append(text);
  *end = '\0';
  return result;
}

const char* last_error() noexcept { return text_of_last; }

}  // namespace weft::ccl

ncclResult_t ncclGetVersion(int* version) {
  return weft::ccl::call([&]() -> weft::Result<void> {
    if (version == nullptr) return weft::ccl::wrong("version is NULL");
    *version = NCCL_VERSION_CODE;
    return {};
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "success";
    case ncclUnhandledCudaError:
      return "a call of CUDA failed";
    case ncclSystemError:
      return "a system call or the network failed";
    case ncclInternalError:
      return "an error inside the library";
    case ncclInvalidArgument:
      return "an argument is wrong";
    case ncclInvalidUsage:
      return "a call at the wrong time, or ranks that made different calls";
    case ncclRemoteError:
      return "another rank died, left or aborted";
    case ncclInProgress:
      return "in progress";
    case ncclTimeout:
      return "a rank has not called in time";
    default:
      return "an unknown result";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  const char* const text = comm != nullptr ? comm->it->failure_text() : nullptr;
  return text != nullptr ? text : weft::ccl::last_error();
}
