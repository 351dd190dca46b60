// SPDX-License-Identifier: BSD-3-Clause
// What every function of a libfabric table needs: an answer where nothing is offered, no exception
// across the C boundary, errors as negative codes with their text in libfabric's log.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <exception>
#include <new>

#include "weft/result.hpp"
#include "weft/wr.hpp"

namespace weft::fi {

// The provider of this library, for the log.
fi_provider& provider() noexcept;
// Its name. Defined by msg/provider.cpp or rdm/provider.cpp.
const char* provider_name() noexcept;

// For entries of a table that the provider does not have.
template <class R, class... A>
constexpr R not_implemented(A...) noexcept {
  return -FI_ENOSYS;
}

using Close = int (*)(fid_t);
using Bind = int (*)(fid_t, fid_t, uint64_t);
using Control = int (*)(fid_t, int, void*);

// A table with these entries and no others.
constexpr fi_ops fid_ops(Close close, Bind bind = not_implemented,
                         Control control = not_implemented) noexcept {
  return {.size = sizeof(fi_ops),
          .close = close,
          .bind = bind,
          .control = control,
          .ops_open = not_implemented,
          .tostr = not_implemented,
          .ops_set = not_implemented};
}

// Copies a text to the buffer of a strerror call, cut to its length; returns the text.
const char* copy_text(const char* text, char* buffer, size_t length) noexcept;

// The negative code of libfabric.
int code_of(Code code) noexcept;
// The same, with the error's text in the log, as a warning: `what` is the call.
int failed(fi_log_subsys subsystem, const char* what, const Error& error) noexcept;
// -FI_EOPNOTSUPP, with the reason in the log.
int not_supported(fi_log_subsys subsystem, const char* what) noexcept;
// The positive code of a completion's status.
int code_of(Status status) noexcept;
// The text of a code and a status that a completion's `prov_errno` holds.
const char* status_text(int status) noexcept;

// The code of an exception that is not std::bad_alloc, with its text in the log.
int failed(const std::exception& what) noexcept;

// Runs the body of a C function. No memory is -FI_ENOMEM; what else the standard library refuses
// (a size without measure, a thread too many) is logged, and -FI_EINVAL or -FI_EAGAIN.
template <class Body>
auto guarded(Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  } catch (const std::exception& what) {
    return failed(what);
  }
}

}  // namespace weft::fi
