// SPDX-License-Identifier: BSD-3-Clause
// See rdmacm.hpp.
#include "providers/ibverbs/rdmacm.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace weft::ibverbs {

namespace {

Result<CmLibrary> load(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return Error{Code::not_found,
                 "cannot load " + name +
                     ", which the connection manager of provider ibverbs needs (" +
                     (reason != nullptr ? reason : "no reason given") +
                     "); install it: apt-get install librdmacm1; or use connect() and Listener of "
                     "weft/connect.hpp"};
  }
  CmLibrary library;
  const char* missing = nullptr;
#define WEFT_RDMACM_FUNCTION(function)                                                \
  library.function =                                                                  \
      reinterpret_cast<decltype(library.function)>(dlsym(handle, "rdma_" #function)); \
  if (library.function == nullptr) missing = "rdma_" #function;
  WEFT_RDMACM_FUNCTIONS(WEFT_RDMACM_FUNCTION)
#undef WEFT_RDMACM_FUNCTION
  if (missing != nullptr)
    return Error{Code::not_supported, name + " has no " + missing +
                                          ": the connection manager of provider ibverbs needs the "
                                          "librdmacm of rdma-core, version 20 or newer"};
  return library;
}

}  // namespace

Result<const CmLibrary*> load_rdmacm(const std::string& name) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, CmLibrary>;  // outlives every channel
  const std::lock_guard lock(mutex);
  const auto known = loaded.find(name);
  if (known != loaded.end()) return &known->second;
  const Result<CmLibrary> library = load(name);
  if (!library) return library.error();
  return &loaded.emplace(name, *library).first->second;
}

}  // namespace weft::ibverbs
