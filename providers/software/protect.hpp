// SPDX-License-Identifier: BSD-3-Clause
// The key secure= of a device string, and what it does: the ports of the device seal what they
// send and open what they receive.
#pragma once

#include "providers/port/secure/layout.hpp"
#include "providers/software/open.hpp"

namespace weft::software {

// secure=psk sets `secure`, secure=none clears it.
OwnKey secure_key(bool& secure);

// Wraps each port, under a key of the secret that this process has (crypto::read_own_secret()).
// Ports in memory stay as they are: the kernel says whose process is at the other end. Errors: of
// the secret and of the cryptographic library.
Result<void> protect(OpenedPort& opened, const secure::Layout& layout, uint16_t udp_port);

}  // namespace weft::software
