// SPDX-License-Identifier: BSD-3-Clause
// What all objects share: creation without exceptions, references to the context, and the state
// for events that verbs.h keeps in an object.
#pragma once

#include <cerrno>
#include <exception>
#include <new>
#include <utility>

#include "lib/adapters/verbs/errors.hpp"
#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// Frees the context when it was closed and its last object is gone.
void release(Context& context) noexcept;

// Calls `body`, which returns a pointer or an int: no exception reaches a C caller.
template <class Body>
auto without_exceptions(const char* call, Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& exception) {
    const int error = refuse(ENOMEM, call, "%s", exception.what());
    if constexpr (std::is_pointer_v<decltype(body())>)
      return nullptr;
    else
      return error;
  }
}

// As null, for calls that return a pointer.
template <class T, class... Arguments>
T* refuse_null(int error, const char* call, const char* format, Arguments... arguments) noexcept {
  if constexpr (sizeof...(arguments) == 0)
    refuse(error, call, "%s", format);
  else
    refuse(error, call, format, arguments...);
  return nullptr;
}
template <class T>
T* refuse_null(const char* call, const Error& error) noexcept {
  refuse(call, error);
  return nullptr;
}

// Waits until the program has acknowledged `reported` events, as the destruction of queues does.
template <class Object>
void wait_for_acks(Object& object, uint32_t Object::*completed, uint32_t reported) noexcept {
  pthread_mutex_lock(&object.mutex);
  while (object.*completed != reported) pthread_cond_wait(&object.cond, &object.mutex);
  pthread_mutex_unlock(&object.mutex);
}

template <class Object>
void acknowledge(Object& object, uint32_t Object::*completed, uint32_t count) noexcept {
  pthread_mutex_lock(&object.mutex);
  object.*completed += count;
  pthread_cond_broadcast(&object.cond);
  pthread_mutex_unlock(&object.mutex);
}

}  // namespace weft::drop_in
