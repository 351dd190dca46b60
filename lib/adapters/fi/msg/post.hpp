// SPDX-License-Identifier: BSD-3-Clause
// What fi_ops_msg and fi_ops_rma share: a send request out of a caller's vectors.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>

#include "lib/adapters/fi/msg/endpoint.hpp"

namespace weft::fi {

// Scatter/gather entries of a request. Their memory needs no registration (OpenDevice::memory).
struct Pieces {
  std::array<Sge, kIovLimit> entries;
  size_t count = 0;
  size_t length = 0;  // bytes in all
  std::span<const Sge> span() const noexcept { return {entries.data(), count}; }
};
// False: more than kIovLimit.
bool put_pieces(const OpenDevice& device, const iovec* iov, size_t count, Pieces& out) noexcept;

// Posts `request`, whose opcode, remote side and immediate data are set. `flags` are those of the
// call, `completes_as` those of its completion. The negative code, or 0.
ssize_t post(Ep& ep, SendRequest& request, const iovec* iov, size_t count, void* context,
             uint64_t flags, uint64_t completes_as) noexcept;

inline constexpr uint64_t kInjected = FI_INJECT;  // flags of an injection: no FI_COMPLETION

}  // namespace weft::fi
