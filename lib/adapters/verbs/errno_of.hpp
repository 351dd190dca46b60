// SPDX-License-Identifier: BSD-3-Clause
// The errno of a code of weft, for both libraries.
#pragma once

#include <cerrno>

#include "weft/result.hpp"

namespace weft::drop_in {

constexpr int errno_of(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return 0;
    case Code::not_found:
      return ENODEV;
    case Code::no_memory:
    case Code::queue_full:
      return ENOMEM;
    case Code::not_supported:
      return EOPNOTSUPP;
    case Code::permission_denied:
      return EPERM;
    case Code::busy:
      return EBUSY;
    case Code::would_block:
      return EAGAIN;
    case Code::timed_out:
      return ETIMEDOUT;
    case Code::disconnected:
      return ENOTCONN;
    case Code::address_in_use:
      return EADDRINUSE;
    case Code::io_error:
    case Code::peer_failed:
      return EIO;
    default:
      return EINVAL;
  }
}

}  // namespace weft::drop_in
