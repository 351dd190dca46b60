// SPDX-License-Identifier: BSD-3-Clause
// See library.hpp.
#include "providers/ibverbs/library.hpp"

#include <dlfcn.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace weft::ibverbs {

namespace {

Error cannot_load(const std::string& name) {
  const char* const reason = dlerror();
  return {Code::not_found, "cannot load " + name + ", which the ibverbs provider needs (" +
                               (reason != nullptr ? reason : "no reason given") +
                               "); install it: apt-get install libibverbs1 ibverbs-providers"};
}

// Kernels before 5.12 take pinned pages away from a parent that forks, unless libibverbs keeps them
// out of children. Newer ones need nothing, and then a child may even use a copy of such a page.
void prepare_for_fork(void* handle, const Library& library) {
  constexpr int kUnneeded = 2;  // IBV_FORK_UNNEEDED, as the call itself since rdma-core 35
  const auto status = reinterpret_cast<int (*)()>(dlsym(handle, "ibv_is_fork_initialized"));
  // An error here changes nothing for a program that does not fork.
  if (status == nullptr || status() != kUnneeded) (void)library.fork_init();
}

Result<Library> load(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return cannot_load(name);
  Library library;
  const char* missing = nullptr;
#define WEFT_IBVERBS_FUNCTION(function)                                              \
  library.function =                                                                 \
      reinterpret_cast<decltype(library.function)>(dlsym(handle, "ibv_" #function)); \
  if (library.function == nullptr) missing = "ibv_" #function;
  WEFT_IBVERBS_FUNCTIONS(WEFT_IBVERBS_FUNCTION)
#undef WEFT_IBVERBS_FUNCTION
  if (missing != nullptr)
    return Error{Code::not_supported, name + " has no " + missing +
                                          ": the ibverbs provider needs the libibverbs of "
                                          "rdma-core, version 15 or newer"};
  library.reg_dmabuf_mr =
      reinterpret_cast<decltype(library.reg_dmabuf_mr)>(dlsym(handle, "ibv_reg_dmabuf_mr"));
  library.qp_to_qp_ex =
      reinterpret_cast<decltype(library.qp_to_qp_ex)>(dlsym(handle, "ibv_qp_to_qp_ex"));
  prepare_for_fork(handle, library);
  return library;
}

std::string memory_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return "; this process may lock " + std::to_string(limit.rlim_cur / 1024) +
         " KiB of memory: raise it with `ulimit -l unlimited` or in /etc/security/limits.conf";
}

}  // namespace

Result<const Library*> load_library(const std::string& name) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, Library>;  // outlives every open device
  const std::lock_guard lock(mutex);
  const auto known = loaded.find(name);
  if (known != loaded.end()) return &known->second;
  const Result<Library> library = load(name);
  if (!library) return library.error();
  return &loaded.emplace(name, *library).first->second;
}

Error error_of(int error, const std::string& what) {
  std::string text = what + ": " + std::strerror(error);
  switch (error) {
    case ENOMEM:
      return {Code::no_memory, text + memory_limit()};
    case EPERM:  // also: no memory may be locked at all
      return {Code::permission_denied, text + memory_limit()};
    case EACCES:
      return {Code::permission_denied, text};
    case EINVAL:
      return {Code::invalid_argument, text + " (the device does not take it)"};
    case EOPNOTSUPP:
    case ENOSYS:
      return {Code::not_supported, text};
    case ETIMEDOUT:
      return {Code::timed_out, text};
    case ENODEV:
    case EIO:
      return {Code::io_error, text + "; the device may have been removed"};
    default:
      return {Code::io_error, text};
  }
}

}  // namespace weft::ibverbs
