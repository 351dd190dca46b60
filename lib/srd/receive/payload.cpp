// SPDX-License-Identifier: BSD-3-Clause
// Payload to its final address: the one copy.
#include <algorithm>

#include "lib/memory/guarded_copy.hpp"
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

using wire::SrdReason;

Outcome copy_payload(ReceiveContext& ctx, std::byte* to, const Arrival& a, uint32_t offset,
                     uint32_t length, SrdReason& why) noexcept {
  const Frame& frame = a.frame;
  WEFT_DCHECK(offset + length <= a.packet.payload_length);
  if (frame.remote != nullptr && frame.remote_length != 0) {
    ctx.count(Count::rx_by_reference);
    if (frame.remote->pull(to, frame.remote_address + offset, length)) return Outcome::executed;
    ctx.count(Count::rx_pull_failed);
    return Outcome::dropped;  // the sender's memory is gone: the sender reports that
  }
  const std::byte* const from = frame.more_length != 0 ? frame.more : a.packet.payload;
  if (memory::copy_in(to, from + offset, length)) return Outcome::executed;
  why = SrdReason::memory;
  return Outcome::refused;
}

//= threat:A22 to its place, whatever came before it
Outcome place_payload(ReceiveContext& ctx, const Sge* sges, uint32_t entries, uint32_t domain,
                      uint32_t offset, const Arrival& a, SrdReason& why) noexcept {
  const uint32_t length = a.packet.payload_length;
  for (uint32_t i = 0, done = 0; done != length && i < entries; ++i) {
    if (offset >= sges[i].length) {
      offset -= sges[i].length;
      continue;
    }
    const uint32_t piece = std::min(length - done, sges[i].length - offset);
    std::byte* where;
    why = SrdReason::memory;
    if (ctx.keys().check(sges[i].lkey.value, domain,
                         reinterpret_cast<uint64_t>(sges[i].address) + offset, piece,
                         Access::local_write, &where) != memory::Verdict::ok)
      return Outcome::refused;
    const Outcome copied = copy_payload(ctx, where, a, done, piece, why);
    if (copied != Outcome::executed) return copied;
    done += piece;
    offset = 0;
  }
  return Outcome::executed;
}

}  // namespace weft::srd
