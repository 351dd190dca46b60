// SPDX-License-Identifier: BSD-3-Clause
// Secrets as they lie in files: that of a job, which WEFT_SECRET names, and that of a user, which
// is made when it is first needed. Both are read anew for each connection, so that they can be
// replaced, and are in memory no longer than needed.
#pragma once

#include <string>
#include <string_view>

#include "weft/result.hpp"

namespace weft::crypto {

// 32 characters may be 128 bits in hexadecimal digits.
inline constexpr size_t kLeastSecretBytes = 32;
inline constexpr size_t kMostSecretBytes = 4096;

// The content of the file `name`, or of the inherited descriptor "fd:N", without the ends of lines
// behind it. Errors, which name it: not_found, permission_denied (others could read or replace it),
// invalid_argument (its size), io_error.
Result<std::string> read_secret(std::string_view name);

// The secret of the effective user: ~/.config/weft/loopback.key, with ~ from the list of users and
// not from the environment, so that all of his processes find the same. A user without a home has
// /dev/shm/weft-UID.key. Errors as of read_secret().
Result<std::string> read_user_secret();

// That of the job, if WEFT_SECRET names one, else that of the user.
Result<std::string> read_own_secret();

// 64 hexadecimal digits from the kernel's generator.
Result<std::string> random_secret();

// Makes a secret for the processes that this one starts, which inherit it as a descriptor, unless
// they inherit one already or WEFT_INSECURE: sets WEFT_SECRET. For programs with one thread.
Result<void> hand_down_secret();

}  // namespace weft::crypto
