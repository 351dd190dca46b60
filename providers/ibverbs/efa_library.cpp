// SPDX-License-Identifier: BSD-3-Clause
// See efa_library.hpp.
#include "providers/ibverbs/efa_library.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace weft::ibverbs {

namespace {

static_assert(kEfaRead == EFADV_DEVICE_ATTR_CAPS_RDMA_READ &&
              kEfaRnrRetry == EFADV_DEVICE_ATTR_CAPS_RNR_RETRY &&
              kEfaCqWithSgid == EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID);

Result<EfaLibrary> load(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return Error{Code::not_found, "cannot load " + name + ", which SRD of an EFA (,srd) needs (" +
                                      (reason != nullptr ? reason : "no reason given") +
                                      "); install it: apt-get install ibverbs-providers; weft's "
                                      "own SRD needs no device: srd+udp:lo"};
  }
  EfaLibrary library;
  const char* missing = nullptr;
#define WEFT_EFA_FUNCTION(function)                                                    \
  library.function =                                                                   \
      reinterpret_cast<decltype(library.function)>(dlsym(handle, "efadv_" #function)); \
  if (library.function == nullptr) missing = "efadv_" #function;
  WEFT_EFA_FUNCTIONS(WEFT_EFA_FUNCTION)
#undef WEFT_EFA_FUNCTION
  if (missing != nullptr)
    return Error{Code::not_supported, name + " has no " + missing +
                                          ": SRD of an EFA needs the libefa of rdma-core, version "
                                          "43 or newer"};
  return library;
}

}  // namespace

Result<const EfaLibrary*> load_efa(const std::string& name) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, EfaLibrary>;  // outlives every open device
  const std::lock_guard lock(mutex);
  const auto known = loaded.find(name);
  if (known != loaded.end()) return &known->second;
  const Result<EfaLibrary> library = load(name);
  if (!library) return library.error();
  return &loaded.emplace(name, *library).first->second;
}

}  // namespace weft::ibverbs
