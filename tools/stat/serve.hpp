// SPDX-License-Identifier: BSD-3-Clause
// Metrics over HTTP, for a Prometheus that scrapes them.
#pragma once

#include <sys/types.h>

#include <string>

#include "weft/result.hpp"

namespace weft::stat {

// Answers GET /metrics at `address`, "127.0.0.1:9464" or "[::1]:9464", until SIGINT or SIGTERM:
// of `process`, or if that is 0 of every process with open devices that we may look at. Errors:
// invalid_argument, address_in_use (or no such address), not_supported (built without the library).
Result<void> serve(const std::string& address, pid_t process);

}  // namespace weft::stat
