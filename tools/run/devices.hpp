// SPDX-License-Identifier: BSD-3-Clause
// The list of device strings that the drop-in libraries open: split, completed with middleware,
// checked, joined again.
#pragma once

#include <string>
#include <vector>

#include "weft/result.hpp"

namespace weft::run {

// What -d is if it is not given: WEFT_VERBS_DEVICES, else WEFT_DEVICE, else roce+udp over the
// interface of the default route, else over lo.
std::string default_devices();

// The device strings of a list "A;B". Error: an empty one.
Result<std::vector<std::string>> split_devices(const std::string& list);

// Appends the keys ,fault.KEY=VALUE of --faults to every device: `text` is KEY=VALUE[,KEY=VALUE]...
// or a file of them, one per line. fault. may be left out. Of a file with times the key is
// ,fault.timeline=FILE with an absolute path. Errors: not_found (no such file),
// invalid_argument (file and line).
Result<void> add_faults(const std::string& text, std::vector<std::string>& devices);

// Appends ,pcap=FILE, as an absolute path: programs may change directory. Of several devices each
// has a file of its own, FILE.weft0, FILE.weft1 ... Error: a path that a device string cannot hold.
Result<void> add_pcap(const std::string& file, std::vector<std::string>& devices);

// Opens and closes each device. The error is that of Device::open.
Result<void> check_devices(const std::vector<std::string>& devices);

}  // namespace weft::run
