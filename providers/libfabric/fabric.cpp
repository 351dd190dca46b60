// SPDX-License-Identifier: BSD-3-Clause
// See fabric.hpp.
#include "providers/libfabric/fabric.hpp"

namespace weft::libfabric {

namespace {

Code code_of(int error) noexcept {
  switch (error) {
    case FI_ENOMEM:
      return Code::no_memory;
    case FI_EACCES:
    case FI_EPERM:
      return Code::permission_denied;
    case FI_ENODATA:
    case FI_ENODEV:
      return Code::not_found;
    case FI_ENOSYS:
    case FI_EOPNOTSUPP:
      return Code::not_supported;
    case FI_EADDRINUSE:
      return Code::address_in_use;
    case FI_EINVAL:
      return Code::invalid_argument;
    default:
      return Code::io_error;
  }
}

}  // namespace

Error error_of(int code, const std::string& what) {
  return {code_of(-code), what + ": libfabric says \"" + fi_strerror(-code) + "\""};
}

}  // namespace weft::libfabric
