// SPDX-License-Identifier: BSD-3-Clause
// How the two ends of a rendezvous (connect(), Listener, Store, Communicator) know that they belong
// together. With the secret of a job: TLS 1.3 with this secret as its pre-shared key. Without one:
// between processes of one user on one host, TLS with a key of that user. Everything else is
// refused, unless both ends say `insecure`.
#pragma once

#include <string>

#include "weft/units.hpp"

namespace weft {

// What one end of a rendezvous asks of the other. Both ends must ask for the same.
struct Security {
  // The path of a file of 32 to 4096 bytes that only its owner can read, or "fd:N": an inherited
  // descriptor of such a file. Empty: the environment variable WEFT_SECRET, if there is one.
  std::string secret{};
  // Clear text without authentication: for networks that you own. It counts for more than
  // WEFT_SECRET. The environment variable WEFT_INSECURE=1 is the same where nothing else is said.
  bool insecure = false;
  // For the handshake of one peer, from its first byte.
  Duration limit = Duration::from_s(2);
};

}  // namespace weft
