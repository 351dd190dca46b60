// SPDX-License-Identifier: BSD-3-Clause
// Who holds a UDP port, from /proc, for error messages.
#pragma once

#include <string>

#include "providers/port/udp/address.hpp"

namespace weft::port::udp {

// "process 4711 (rping) of user 1000", without the process where we may not look at it: those of
// other users are hidden from all but root. "unknown" if there is no such socket.
std::string holder_of(const LocalAddress& local);

}  // namespace weft::port::udp
