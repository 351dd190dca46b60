// SPDX-License-Identifier: BSD-3-Clause
// See efa_library.hpp.
#include "providers/ibverbs/efa/efa_library.hpp"

#include "providers/ibverbs/context/shared_library.hpp"

namespace weft::ibverbs {

namespace {

static_assert(kEfaRead == EFADV_DEVICE_ATTR_CAPS_RDMA_READ &&
              kEfaRnrRetry == EFADV_DEVICE_ATTR_CAPS_RNR_RETRY &&
              kEfaCqWithSgid == EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID);

constexpr LibraryPurpose kPurpose{
    .user = "SRD of an EFA (,srd)",
    .remedy =
        "install it: apt-get install ibverbs-providers; weft's own SRD needs no device: "
        "srd+udp:lo",
    .version = "the libefa of rdma-core, version 43 or newer"};

Result<EfaLibrary> load(const std::string& name) {
  Result<SharedLibrary> file = SharedLibrary::open(name, kPurpose);
  if (!file) return file.error();
  EfaLibrary library;
#define WEFT_EFA_FUNCTION(function) file->require(library.function, "efadv_" #function);
  WEFT_EFA_FUNCTIONS(WEFT_EFA_FUNCTION)
#undef WEFT_EFA_FUNCTION
  if (const Result<void> ok = file->complete(); !ok) return ok.error();
  return library;
}

}  // namespace

Result<const EfaLibrary*> load_efa(const std::string& name) { return load_once(name, load); }

}  // namespace weft::ibverbs
