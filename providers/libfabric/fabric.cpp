// SPDX-License-Identifier: BSD-3-Clause
// See fabric.hpp.
#include "providers/libfabric/fabric.hpp"

#include <dlfcn.h>

namespace weft::libfabric {

namespace {

constexpr const char* kName = "libfabric.so.1";

template <class Function>
bool look_up(void* handle, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

Result<Library> load() {
  void* const handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return Error{Code::not_found, std::string(kName) + " cannot be loaded (" + dlerror() +
                                      "): apt-get install libfabric1"};
  Library found;
  if (look_up(handle, "fi_getinfo", found.getinfo) &&
      look_up(handle, "fi_freeinfo", found.freeinfo) &&
      look_up(handle, "fi_dupinfo", found.dupinfo) && look_up(handle, "fi_fabric", found.fabric) &&
      look_up(handle, "fi_strerror", found.strerror))
    return found;
  return Error{Code::not_supported, std::string(kName) + " lacks a function: " + dlerror()};
}

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

Result<const Library*> load_library() {
  static const Result<Library> library = load();
  if (!library) return library.error();
  return &*library;
}

Error error_of(int code, const std::string& what) {
  const Result<const Library*> library = load_library();
  const std::string text = library ? (*library)->strerror(-code) : std::to_string(-code);
  return {code_of(-code), what + ": libfabric says \"" + text + "\""};
}

}  // namespace weft::libfabric
