// SPDX-License-Identifier: BSD-3-Clause
// Shared by the tests of stores: a port, a limit that no test waits for, clear text.
#pragma once

#include "lib/base/tcp.hpp"
#include "weft/store.hpp"

namespace weft {

inline constexpr Duration kLimit = Duration::from_s(30);
inline const Security kClear{.insecure = true};

// Free again when it is returned.
inline uint16_t free_port() {
  return base::bound_port(*base::start_listen(base::resolve({"127.0.0.1", 0}, true)->front()));
}

}  // namespace weft
