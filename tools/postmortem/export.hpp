// SPDX-License-Identifier: BSD-3-Clause
// Writes records in formats of other programs. The files have mode 0600.
#pragma once

#include <string>
#include <vector>

#include "tools/postmortem/record.hpp"

namespace weft::postmortem {

// For Wireshark: the packets, cut after the headers that records hold, each record an interface of
// its own; other events are comments of the packet behind them. Errors: those of
// base::create_private_file(), and io_error.
Result<void> write_pcapng(const std::vector<Record>& records, const std::string& path);

// For ui.perfetto.dev: a process for each record, and arrows from each packet that was sent to the
// same packet where it was received.
Result<void> write_perfetto(const std::vector<Record>& records, const std::string& path);

}  // namespace weft::postmortem
