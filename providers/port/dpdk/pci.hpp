// SPDX-License-Identifier: BSD-3-Clause
// Devices that are named by their PCI address.
#pragma once

#include <string>

#include "weft/result.hpp"

namespace weft::port::dpdk {

// As the EAL writes it, "0000:3b:00.1", of that or of "3b:00.1"; empty: `where` is no PCI address.
std::string pci_address(const std::string& where);

// Is there such a device? Error: not_found.
Result<void> find_pci_device(const std::string& address);

// Why DPDK, which has refused a device that is there, may have done so, and what to do. Codes:
// permission_denied, not_supported.
Error pci_refusal(const std::string& address, const std::string& what_dpdk_said);

}  // namespace weft::port::dpdk
