// SPDX-License-Identifier: BSD-3-Clause
// The device of a group that is made out of another: a device of several rails (SRD's rails=) may
// have lost some since it was opened, with the network interface that an address was of. The new
// group goes on over those that remain.
#pragma once

#include <string>
#include <vector>

#include "weft/result.hpp"
#include "weft/store.hpp"
#include "weft/units.hpp"

namespace weft::collective {

// `device` as for Device::open, WEFT_DEVICE if it is empty; without those rails whose addresses are
// gone on any rank of the new group `name`, so that all begin with the same one and share their
// bytes over the same ones: networks may be apart, ranks look for each other at their first
// addresses, and a collective goes at the pace of the rank that has fewest. Where no rail is left
// to all, each rank keeps those that it has. To be called by all of them. If none is left the
// device stays as it is, and cannot be opened. Errors: those of the store, timed_out where a rank
// does not come.
Result<std::string> device_with_remaining_rails(Store& store, const std::string& name,
                                                uint32_t rank, uint32_t ranks,
                                                const std::string& device, Duration limit);

// The same device with rails in this order, the first of them behind PORT:.
std::string with_rails(const std::string& device, const std::vector<std::string>& rails);

// Which rails a rank of the new group takes, and in which order. `there`: by rank of the group, a
// letter for each rail of its, '1' if it has its address; rail i of all ranks is one network.
std::vector<size_t> rail_order(const std::vector<std::string>& there, uint32_t rank);

}  // namespace weft::collective
