// SPDX-License-Identifier: BSD-3-Clause
// What the functions of the C API have in common: the handles, the text of the thread's last error,
// the boundary that no exception passes, and structures whose size the caller says.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "weft/weft.h"
#include "weft/weft.hpp"

struct weft_device {
  weft::Device it;
};
struct weft_pd {
  weft::ProtectionDomain it;
};
struct weft_mr {
  weft::MemoryRegion it;
};
struct weft_cq {
  weft::CompletionQueue it;
};
struct weft_qp {
  weft::QueuePair it;
};
struct weft_listener {
  weft::Listener it;
};
struct weft_connector {
  weft::Connector it;
};

// Hidden: cmake/weft.map.in exports what is named weft::[A-Z]*, and a template's name begins with
// the type that it returns.
#pragma GCC visibility push(hidden)
namespace weft::c {

// Makes `text` that of weft_error_text(), behind the name of the function if there is one. Long
// texts are cut.
weft_code failed(Code code, std::string_view text, const char* function = nullptr) noexcept;
inline weft_code failed(const Error& error) noexcept { return failed(error.code, error.message); }

// An argument that must not be NULL.
struct Argument {
  const char* name;
  const void* value;
};

// Returns body(), unless one of `needed` is NULL. An exception becomes its code.
template <class Body>
weft_code call(std::initializer_list<Argument> needed, Body body,
               const char* function = __builtin_FUNCTION()) noexcept {
  try {
    for (const Argument& argument : needed)
      if (argument.value == nullptr)
        return failed(Code::invalid_argument, std::string(argument.name) + " is NULL", function);
    return body();
  } catch (const std::bad_alloc&) {
    return failed(Code::no_memory, "out of memory", function);
  } catch (const std::exception& other) {
    return failed(Code::io_error, other.what(), function);
  }
}

inline weft_code done(const Result<void>& result) {
  return result ? WEFT_OK : failed(result.error());
}

// A handle of what was made.
template <class T, class Handle>
weft_code made(Result<T> result, Handle** handle) {
  if (!result) return failed(result.error());
  *handle = new Handle{std::move(*result)};
  return WEFT_OK;
}

// A structure that a caller's `size` says to be longer is of no version of this API.
inline constexpr size_t kLongestStructure = 1 << 16;

// Sets `size` bytes at `to` to the defaults.
template <class T>
void initialise(T* to, size_t size, T defaults) noexcept {
  if (to == nullptr || size < sizeof(size_t)) return;
  defaults.size = size;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &defaults, std::min(size, sizeof defaults));
}

// Puts `given`, which may be NULL, over the defaults in `it`.
template <class T>
weft_code known(const T* given, T& it, const char* name) {
  if (given == nullptr) return WEFT_OK;
  const size_t size = given->size;
  if (size < sizeof(size_t) || size > kLongestStructure)
    return failed(Code::invalid_argument, std::string(name) + ": its member size is " +
                                              std::to_string(size) + ": call " + name + "_init()");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t at = sizeof(T); at < size; ++at)
    if (bytes[at] != 0)
      return failed(Code::not_supported,
                    std::string(name) + ": a member beyond the " + std::to_string(sizeof(T)) +
                        " bytes that this library knows is set: leave it, or use a newer library");
  std::memcpy(static_cast<void*>(&it), given, std::min(size, sizeof it));
  return WEFT_OK;
}

// Stores what the caller has room for.
template <class T>
weft_code fill(T* to, T value, const char* name) {
  const size_t size = to->size;
  if (size < sizeof(size_t) || size > kLongestStructure)
    return failed(Code::invalid_argument, std::string(name) + ": its member size is " +
                                              std::to_string(size) + ": set it to sizeof(" + name +
                                              ")");
  initialise(to, size, value);
  return WEFT_OK;
}

// Values as they are in both languages.
inline weft_gid gid_of(const Gid& gid) {
  weft_gid it{};
  std::copy(gid.bytes.begin(), gid.bytes.end(), it.bytes);
  return it;
}
inline Gid gid_of(const weft_gid& gid) {
  Gid it;
  std::copy(std::begin(gid.bytes), std::end(gid.bytes), it.bytes.begin());
  return it;
}
AddressVector path_of(const weft_address_vector& path);
weft_address_vector path_of(const AddressVector& path);

}  // namespace weft::c
#pragma GCC visibility pop
