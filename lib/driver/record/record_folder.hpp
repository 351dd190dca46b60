// SPDX-License-Identifier: BSD-3-Clause
// Where flight records lie: a folder of the user's own, on a file system in memory if there is one.
// A process removes its records when it closes its devices. Those of processes that crashed stay,
// and those of devices on which a request failed: the newest few of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/result.hpp"

namespace weft::driver {

// $WEFT_RECORDS, else $XDG_RUNTIME_DIR/weft, else /dev/shm/weft-UID, else /tmp/weft-UID. Both
// variables are ignored in a process with more rights than its caller. It may not exist yet.
// nullopt: WEFT_RECORDS=0 turns records off.
std::optional<std::string> record_folder();

// The folder, made with mode 0700 if it does not exist. Errors: not_found (records are off),
// permission_denied (it belongs to another user, or others may write to it), io_error.
Result<std::string> make_record_folder();

// Paths of the records in `folder`, newest first.
std::vector<std::string> records_in(const std::string& folder);

// Removes all records of processes that have ended but the newest `kept`.
void remove_old_records(const std::string& folder, size_t kept) noexcept;

// A number that, with its process number and namespace, names a process for ever: when it started.
// 0: there is no such process.
uint64_t start_of_process(int32_t process) noexcept;
// The inode of the process namespace of this process.
uint64_t process_space() noexcept;

}  // namespace weft::driver
