// SPDX-License-Identifier: BSD-3-Clause
// What every exported function does: it turns errors of weft and exceptions into -1 and errno, and
// says why with WEFT_VERBS_LOG=1.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <new>
#include <string>

#include "lib/adapters/verbs/errno_of.hpp"
#include "lib/adapters/verbs/objects.hpp"
#include "weft/result.hpp"

namespace weft::rdmacm {

using drop_in::errno_of;

// Sets errno and returns -1.
inline int refuse(int error, const char* call, const char* reason) noexcept {
  return weft_verbs_refuse(error, call, reason);
}
inline int refuse(const char* call, const Error& error) noexcept {
  return refuse(errno_of(error.code), call, error.message.c_str());
}
inline int outcome(const char* call, const Result<void>& result) noexcept {
  return result ? 0 : refuse(call, result.error());
}

// A function that blocks is a cancellation point only where it says so: an object of this class
// ends that, so that no thread is cancelled within weft.
class NotCancelled {
 public:
  NotCancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Calls `body`; out of memory returns `failed` with ENOMEM.
template <class Value = int, class Body>
Value guarded(const char* call, Value failed, Body body) try {
  const NotCancelled whole;
  return body();
} catch (const std::bad_alloc&) {
  refuse(ENOMEM, call, "out of memory");
  return failed;
}
template <class Body>
int guarded(const char* call, Body body) {
  return guarded<int>(call, -1, body);
}

}  // namespace weft::rdmacm
