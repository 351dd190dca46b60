// SPDX-License-Identifier: BSD-3-Clause
// The provider weft: what libfabric finds in libweft-fi.so. Endpoints of type FI_EP_RDM over
// queue pairs of srd: one endpoint reaches any number of peers.
#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {
namespace {

fi_provider& instance() noexcept {
  static fi_provider one{.version = FI_VERSION(0, 1),
                         .fi_version = FI_VERSION(1, 17),
                         .context = {},
                         .name = "weft",
                         .getinfo = getinfo,
                         .fabric = open_fabric,
                         .cleanup = forget_device};
  return one;
}

}  // namespace

fi_provider& provider() noexcept { return instance(); }

const char* protocol() noexcept { return "srd"; }

int open_passive(fid_fabric*, fi_info*, fid_pep**, void*) noexcept { return -FI_ENOSYS; }

int open_shared_receive(fid_domain*, fi_rx_attr*, fid_ep**, void*) noexcept { return -FI_ENOSYS; }

}  // namespace weft::fi

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  weft::fi::define_device_parameter();
  return &weft::fi::provider();
}
