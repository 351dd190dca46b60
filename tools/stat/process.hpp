// SPDX-License-Identifier: BSD-3-Clause
// Queries a process with open weft devices: the client of lib/verbs/stat_socket.hpp.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "weft/result.hpp"

namespace weft::stat {

using Json = nlohmann::ordered_json;

// A snapshot of the process, within two seconds. Errors: not_found (no such process, or no weft
// device open), permission_denied, timed_out, io_error; each message has a remedy.
Result<Json> query(pid_t process);

// Processes of all users with open devices in this network namespace.
std::vector<pid_t> find_processes();

}  // namespace weft::stat
