// SPDX-License-Identifier: BSD-3-Clause
// The provider weft: what libfabric finds in libweft-fi.so. Endpoints of type FI_EP_RDM over
// queue pairs of srd: one endpoint reaches any number of peers.
#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {

const char* provider_name() noexcept { return "weft"; }

bool takes_user_keys() noexcept { return true; }

const char* protocol() noexcept { return "srd"; }

int open_passive(fid_fabric*, fi_info*, fid_pep**, void*) noexcept { return -FI_ENOSYS; }

int open_shared_receive(fid_domain*, fi_rx_attr*, fid_ep**, void*) noexcept { return -FI_ENOSYS; }

}  // namespace weft::fi
