// SPDX-License-Identifier: BSD-3-Clause
// Sizes of FI_EP_MSG endpoints.
#pragma once

#include <cstddef>

namespace weft::fi {

inline constexpr size_t kQueueSize = 4096;  // requests of a queue, at most
inline constexpr size_t kInline = 256;      // fi_tx_attr::inject_size
inline constexpr size_t kIovLimit = 4;      // scatter/gather entries of a request
// Connection data. The connection manager pads it, so the first byte is its length.
inline constexpr size_t kConnectData = 55;
inline constexpr size_t kAcceptData = 195;
inline constexpr size_t kRejectData = 147;

}  // namespace weft::fi
