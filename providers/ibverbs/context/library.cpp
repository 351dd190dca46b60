// SPDX-License-Identifier: BSD-3-Clause
// See library.hpp.
#include "providers/ibverbs/context/library.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "providers/ibverbs/context/shared_library.hpp"

namespace weft::ibverbs {

namespace {

constexpr LibraryPurpose kPurpose{
    .user = "the ibverbs provider",
    .remedy = "install it: apt-get install libibverbs1 ibverbs-providers",
    .version = "the libibverbs of rdma-core, version 15 or newer"};

// Kernels before 5.12 take pinned pages away from a parent that forks, unless libibverbs keeps them
// out of children. Newer ones need nothing, and then a child may even use a copy of such a page.
void prepare_for_fork(const SharedLibrary& file, const Library& library) {
  constexpr int kUnneeded = 2;  // IBV_FORK_UNNEEDED, as the call itself since rdma-core 35
  int (*status)() = nullptr;
  file.find(status, "ibv_is_fork_initialized");
  // An error here changes nothing for a program that does not fork.
  if (status == nullptr || status() != kUnneeded) (void)library.fork_init();
}

Result<Library> load(const std::string& name) {
  Result<SharedLibrary> file = SharedLibrary::open(name, kPurpose);
  if (!file) return file.error();
  Library library;
#define WEFT_IBVERBS_FUNCTION(function) file->require(library.function, "ibv_" #function);
  WEFT_IBVERBS_FUNCTIONS(WEFT_IBVERBS_FUNCTION)
#undef WEFT_IBVERBS_FUNCTION
  if (const Result<void> ok = file->complete(); !ok) return ok.error();
  file->find(library.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  file->find(library.qp_to_qp_ex, "ibv_qp_to_qp_ex");
  file->find(library.reg_mr_iova2, "ibv_reg_mr_iova2");
  file->find(library.rereg_mr, "ibv_rereg_mr");
  file->find(library.query_srq, "ibv_query_srq");
  void (*only_of_drop_in)() = nullptr;
  file->find(only_of_drop_in, "weft_verbs_device_spec");
  library.is_drop_in = only_of_drop_in != nullptr;
  prepare_for_fork(*file, library);
  return library;
}

std::string memory_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return "; this process may lock " + std::to_string(limit.rlim_cur / 1024) +
         " KiB of memory: raise it with `ulimit -l unlimited` or in /etc/security/limits.conf";
}

}  // namespace

Result<const Library*> load_library(const std::string& name) { return load_once(name, load); }

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
