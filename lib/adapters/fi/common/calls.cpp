// SPDX-License-Identifier: BSD-3-Clause
// Codes of weft as codes of libfabric: see calls.hpp.
#include "lib/adapters/fi/common/calls.hpp"

#include <cstring>
#include <system_error>

namespace weft::fi {

int code_of(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return 0;
    case Code::invalid_argument:
      return -FI_EINVAL;
    case Code::not_found:
      return -FI_ENODATA;
    case Code::no_memory:
      return -FI_ENOMEM;
    case Code::not_supported:
      return -FI_EOPNOTSUPP;
    case Code::permission_denied:
      return -FI_EACCES;
    case Code::busy:
      return -FI_EBUSY;
    case Code::would_block:
    case Code::queue_full:
      return -FI_EAGAIN;
    case Code::timed_out:
      return -FI_ETIMEDOUT;
    case Code::disconnected:
      return -FI_ECONNRESET;
    case Code::address_in_use:
      return -FI_EADDRINUSE;
    case Code::bad_state:
      return -FI_EOPBADSTATE;
    default:
      return -FI_EIO;
  }
}

int failed(fi_log_subsys subsystem, const char* what, const Error& error) noexcept {
  FI_WARN(&provider(), subsystem, "%s: %s\n", what, error.message.c_str());
  return code_of(error.code);
}

int failed(const std::exception& what) noexcept {
  FI_WARN(&provider(), FI_LOG_CORE, "%s\n", what.what());
  return dynamic_cast<const std::system_error*>(&what) != nullptr ? -FI_EAGAIN : -FI_EINVAL;
}

int not_supported(fi_log_subsys subsystem, const char* what) noexcept {
  FI_WARN(&provider(), subsystem, "%s\n", what);
  return -FI_EOPNOTSUPP;
}

int code_of(Status status) noexcept {
  switch (status) {
    case Status::success:
      return 0;
    case Status::local_length_error:
      return FI_ETRUNC;
    case Status::local_protection_error:
    case Status::local_access_error:
      return FI_EFAULT;
    case Status::flushed:
      return FI_ECANCELED;
    case Status::remote_invalid_request:
      return FI_EINVAL;
    case Status::remote_access_error:
      return FI_EACCES;
    case Status::remote_operation_error:
      return FI_EREMOTEIO;
    case Status::retry_exceeded:
      return FI_EHOSTUNREACH;
    case Status::rnr_retry_exceeded:
      return FI_ENORX;
    case Status::remote_aborted:
      return FI_ECONNABORTED;
    default:
      return FI_EIO;
  }
}

const char* copy_text(const char* text, char* buffer, size_t length) noexcept {
  if (buffer != nullptr && length > 0) {
    std::strncpy(buffer, text, length - 1);
    buffer[length - 1] = '\0';
  }
  return text;
}

const char* status_text(int status) noexcept {
  if (status < 0 || status > static_cast<int>(Status::fatal)) return "unknown status";
  return name(static_cast<Status>(status)).data();
}

}  // namespace weft::fi
