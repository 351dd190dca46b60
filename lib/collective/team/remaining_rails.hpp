// SPDX-License-Identifier: BSD-3-Clause
// The device of a group that is made from another: a device with several rails (SRD's rails=) may
// have lost some since it was opened, together with the network interface that had the address. The
// new group uses those that remain.
#pragma once

#include <string>
#include <vector>

#include "weft/result.hpp"
#include "weft/store.hpp"
#include "weft/units.hpp"

namespace weft::collective {

// `device` as for Device::open, or WEFT_DEVICE if it is empty, without the rails that any rank of
// the new group `name` has lost. So all ranks start with the same rail and use the same ones:
// networks may be separate, ranks connect to each other's first address, and a collective is as
// fast as the rank with the fewest rails. If no rail is common to all, each rank keeps those that
// it has. All ranks must call it. If this rank has none left the device is unchanged, and opening
// it fails. Errors: those of the store, timed_out where a rank does not call it.
Result<std::string> device_with_remaining_rails(Store& store, const std::string& name,
                                                uint32_t rank, uint32_t ranks,
                                                const std::string& device, Duration limit);

// The same device with these rails, the first of them behind PORT:.
std::string with_rails(const std::string& device, const std::vector<std::string>& rails);

// The rails that a rank of the new group uses, in order. `available`: for each rank, a character
// for each of its rails, '1' if it has the address; rail i of all ranks is one network.
std::vector<size_t> rail_order(const std::vector<std::string>& available, uint32_t rank);

}  // namespace weft::collective
