// SPDX-License-Identifier: BSD-3-Clause
// Asking a process that has weft devices open what it does: the other end of
// lib/verbs/stat_socket.hpp.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "weft/result.hpp"

namespace weft::stat {

using Json = nlohmann::ordered_json;

// What the process answers, at once or within two seconds. Errors, each saying what to do:
// not_found (no such process; no weft device open there), permission_denied, timed_out, io_error.
Result<Json> ask(pid_t process);

// Processes with devices open, of every user, in this network namespace.
std::vector<pid_t> find_processes();

}  // namespace weft::stat
