// SPDX-License-Identifier: BSD-3-Clause
// See rdmacm.hpp.
#include "providers/ibverbs/cm/rdmacm.hpp"

#include "providers/ibverbs/context/shared_library.hpp"

namespace weft::ibverbs {

namespace {

constexpr LibraryPurpose kPurpose{
    .user = "the connection manager of provider ibverbs",
    .remedy =
        "install it: apt-get install librdmacm1; or use connect() and Listener of "
        "weft/connect.hpp",
    .version = "the librdmacm of rdma-core, version 20 or newer"};

Result<CmLibrary> load(const std::string& name) {
  Result<SharedLibrary> file = SharedLibrary::open(name, kPurpose);
  if (!file) return file.error();
  CmLibrary library;
#define WEFT_RDMACM_FUNCTION(function) file->require(library.function, "rdma_" #function);
  WEFT_RDMACM_FUNCTIONS(WEFT_RDMACM_FUNCTION)
#undef WEFT_RDMACM_FUNCTION
  if (const Result<void> ok = file->complete(); !ok) return ok.error();
  return library;
}

}  // namespace

Result<const CmLibrary*> load_rdmacm(const std::string& name) { return load_once(name, load); }

}  // namespace weft::ibverbs
