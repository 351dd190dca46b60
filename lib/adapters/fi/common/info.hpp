// SPDX-License-Identifier: BSD-3-Clause
// fi_getinfo: what the provider offers on its device, restricted to what the caller's hints ask
// for. All memory that the caller frees with fi_freeinfo() is allocated by libfabric, whose
// structures may be longer than those of the headers that this was compiled with.
#pragma once

#include <rdma/fabric.h>

#include <memory>

#include "lib/adapters/fi/common/address.hpp"
#include "lib/adapters/fi/common/device.hpp"

namespace weft::fi {

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// Defined by msg/ and rdm/: writes all that their endpoints have into a cleared structure, but for
// names and addresses.
void describe_endpoint(fi_info& info, const OpenDevice& device) noexcept;
// Whether regions can have keys of the program's choice, and offsets for addresses.
bool takes_user_keys() noexcept;
// Which bits of registration (FI_MR_*) the provider has; without takes_user_keys() it needs
// FI_MR_VIRT_ADDR and FI_MR_PROV_KEY for remote access.
inline constexpr int kRegistrationModes = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

// Everything the provider has, without addresses; null: no memory.
Info describe(const OpenDevice& device);
// Sets src_addr or dest_addr. False: no memory.
bool set_source(fi_info& info, const Name& name) noexcept;
bool set_destination(fi_info& info, const Name& name) noexcept;

// fi_provider::getinfo.
int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
            const fi_info* hints, fi_info** info) noexcept;

}  // namespace weft::fi
