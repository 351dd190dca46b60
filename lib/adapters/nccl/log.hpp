// SPDX-License-Identifier: BSD-3-Clause
// Lines in NCCL's log, through the function that NCCL gave to init(). Before that, and for programs
// without a log, nothing is written.
#pragma once

#include <string>

#include "lib/adapters/nccl/abi.hpp"
#include "weft/result.hpp"

namespace weft::nccl {

// Any thread.
void set_logger(Logger logger) noexcept;
// A line that NCCL_DEBUG=INFO shows (NCCL_DEBUG_SUBSYS=NET).
void log_info(const std::string& text) noexcept;
// A line that NCCL_DEBUG=WARN shows.
void log_warning(const std::string& text) noexcept;
// Logs the error as a warning and returns what NCCL is told: internal_error of an argument that
// NCCL passed, invalid_usage of ranks whose settings do not fit, remote_error of what the peer did,
// else system_error.
Outcome report(const std::string& where, const Error& error);

}  // namespace weft::nccl
