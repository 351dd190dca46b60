// SPDX-License-Identifier: BSD-3-Clause
// Work requests of verbs in those of weft.
#pragma once

#include <cstddef>

#include "lib/adapters/verbs/memory/access.hpp"
#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// Scatter/gather entries have the same layout, so lists are handed on where they lie.
static_assert(sizeof(ibv_sge) == sizeof(Sge) && offsetof(ibv_sge, addr) == offsetof(Sge, address) &&
              offsetof(ibv_sge, length) == offsetof(Sge, length) &&
              offsetof(ibv_sge, lkey) == offsetof(Sge, lkey));
inline std::span<const Sge> sges_of(const ibv_sge* list, int count) noexcept {
  return {reinterpret_cast<const Sge*>(list), static_cast<size_t>(count)};
}

inline constexpr unsigned kKnownSendFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
inline constexpr const char* kUnknownSendFlags =
    "flags other than FENCE, SIGNALED, SOLICITED and INLINE: no checksum is offloaded";

// IBV_SEND_FENCE and IBV_SEND_SIGNALED lie the other way round; the others are the same.
constexpr SendFlags send_flags_of(unsigned flags) noexcept {
  return static_cast<SendFlags>((flags & IBV_SEND_FENCE) << 1 | (flags & IBV_SEND_SIGNALED) >> 1 |
                                (flags & (IBV_SEND_SOLICITED | IBV_SEND_INLINE)));
}

inline WindowBind window_bind_of(ibv_mw* mw, const ibv_mw_bind_info& info) noexcept {
  return {.window = &of(mw).window,
          .region = info.mr == nullptr ? nullptr : &of(info.mr).region,
          .address = reinterpret_cast<void*>(info.addr),
          .size = info.length,
          .access = access_of(info.mw_access_flags)};
}

}  // namespace weft::drop_in
