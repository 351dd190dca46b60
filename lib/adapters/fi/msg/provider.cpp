// SPDX-License-Identifier: BSD-3-Clause
// The provider weft_msg: what libfabric finds in libweft_msg-fi.so. Endpoints of type FI_EP_MSG
// over RC queue pairs of roce, and nothing else: libfabric's ofi_rxm makes FI_EP_RDM of them. It is
// a library beside that of `weft`, since libfabric lists `NAME;ofi_rxm` before a native NAME.
#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {

const char* provider_name() noexcept { return "weft_msg"; }

bool takes_user_keys() noexcept { return false; }

const char* protocol() noexcept { return "roce"; }

int open_av(fid_domain*, fi_av_attr*, fid_av**, void*) noexcept { return -FI_ENOSYS; }

int query_atomic(fid_domain*, fi_datatype, fi_op, fi_atomic_attr*, uint64_t) noexcept {
  return -FI_EOPNOTSUPP;
}

}  // namespace weft::fi
