// SPDX-License-Identifier: BSD-3-Clause
// What libfabric finds in the library: a provider of the name that msg/ or rdm/ says.
#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {

fi_provider& provider() noexcept {
  static fi_provider one{.version = FI_VERSION(0, 1),
                         .fi_version = fi_version(),  // a later one of a program excludes us
                         .context = {},
                         .name = provider_name(),
                         .getinfo = getinfo,
                         .fabric = open_fabric,
                         .cleanup = forget_device};
  return one;
}

}  // namespace weft::fi

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  weft::fi::define_device_parameter();
  return &weft::fi::provider();
}
