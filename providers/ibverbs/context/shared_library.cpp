// SPDX-License-Identifier: BSD-3-Clause
// See shared_library.hpp.
#include "providers/ibverbs/context/shared_library.hpp"

namespace weft::ibverbs {

Result<SharedLibrary> SharedLibrary::open(const std::string& name, const LibraryPurpose& purpose) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return SharedLibrary(name, purpose, handle);
  const char* const reason = dlerror();
  return Error{Code::not_found, "cannot load " + name + ", which " + purpose.user + " needs (" +
                                    (reason != nullptr ? reason : "no reason given") + "); " +
                                    purpose.remedy};
}

Result<void> SharedLibrary::complete() const {
  if (missing_ == nullptr) return {};
  return Error{Code::not_supported,
               name_ + " has no " + missing_ + ": " + purpose_.user + " needs " + purpose_.version};
}

}  // namespace weft::ibverbs
