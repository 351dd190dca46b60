// SPDX-License-Identifier: BSD-3-Clause
// Sizes of FI_EP_RDM endpoints.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::fi {

inline constexpr size_t kIovLimit = 4;
inline constexpr size_t kTransmitSize = 4096;  // operations that have not completed
inline constexpr size_t kReceiveSize = 16384;
inline constexpr size_t kInject = 4096;        // fi_tx_attr::inject_size
inline constexpr uint32_t kEagerBytes = 8192;  // longer messages are read by the receiver
inline constexpr uint32_t kCredits = 64;       // unmatched eager messages of a peer
inline constexpr uint32_t kQueueSize = 2048;   // send requests of the queue pair
inline constexpr uint32_t kInline = 256;       // bytes of a message that is copied when it is sent
inline constexpr uint32_t kBuffers = 256;      // receives of the queue pair
inline constexpr size_t kAtomicBytes = 2048;   // operands of an atomic
// Peers that are not in the address vector: so many are remembered; from kCrowd on those that are
// gone are forgotten, and of those that are silent kSweep are probed at a time.
inline constexpr size_t kMostUnknown = 16384, kCrowd = 1024, kSweep = 256;
inline constexpr uint32_t kQuestions = 256;   // of a peer that wait for its answer
inline constexpr size_t kMostAnswers = 8192;  // that wait for room and have values

}  // namespace weft::fi
