// SPDX-License-Identifier: BSD-3-Clause
// Payload between frames and the memory that scatter/gather entries and RETHs name. The key is
// checked for every packet, so a region that was revoked in the middle of a message is not touched
// any more.
#pragma once

#include <algorithm>

#include "lib/memory/guarded_copy.hpp"
#include "lib/roce/engine.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/frame_builder.hpp"

namespace weft::roce {

enum class Placed : uint8_t { ok, too_long, local_error, access_error, not_pulled };

// The pieces of memory for `length` bytes from `offset` on of a list of entries that has them,
// each given to copy(where, bytes before it, its length). Ends at the first that is not ok.
template <class Copy>
Placed scatter(Engine& engine, uint32_t domain, const Sge* sges, uint64_t offset, uint32_t length,
               Copy copy) noexcept {
  uint32_t done = 0;
  for (uint32_t i = 0; done != length; ++i) {
    if (offset >= sges[i].length) {
      offset -= sges[i].length;
      continue;
    }
    const uint32_t piece =
        static_cast<uint32_t>(std::min<uint64_t>(length - done, sges[i].length - offset));
    std::byte* where;
    if (engine.keys().check(sges[i].lkey.value, domain,
                            reinterpret_cast<uint64_t>(sges[i].address) + offset, piece,
                            Access::local_write, &where) != memory::Verdict::ok)
      return Placed::local_error;
    const Placed placed = copy(where, done, piece);
    if (placed != Placed::ok) return placed;
    done += piece;
    offset = 0;
  }
  return Placed::ok;
}

// Copies a part of a payload to `to`, which has been checked; wherever it lies. This is the one
// copy of receiving: from the port's buffer (or the sender's memory) straight to the final address.
//= roce:C-OPS-81 the copy ends with a release store of the last aligned word
inline Placed copy_payload(Engine& engine, std::byte* to, const wire::Packet& packet,
                           const Frame& frame, uint32_t offset, uint32_t length) noexcept {
  if (frame.remote != nullptr && frame.remote_length != 0) {
    engine.count(Count::rx_by_reference);
    return frame.remote->pull(to, frame.remote_address + offset, length) ? Placed::ok
                                                                         : Placed::not_pulled;
  }
  const std::byte* from = frame.more_length != 0 ? frame.more : packet.payload;
  return memory::copy_in(to, from + offset, length) ? Placed::ok : Placed::access_error;
}

// The payload of a packet, at `offset` of a list of entries that has room for it.
Placed scatter_payload(Engine& engine, uint32_t domain, const Sge* sges, uint64_t offset,
                       const wire::Packet& packet, const Frame& frame) noexcept;
// The payload of a WRITE packet at offset res.received of the current WRITE: at `where`, if the key
// has been checked for this packet already.
inline Placed place_write(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                          const Frame& frame, std::byte* where) noexcept {
  if (packet.payload_length == 0) return Placed::ok;
  const Responder& res = qp.res;
  if (where == nullptr &&
      engine.keys().check(res.write_key, qp.access_context(), res.write_address + res.received,
                          packet.payload_length, Access::remote_write,
                          &where) != memory::Verdict::ok)
    return Placed::access_error;
  return copy_payload(engine, where, packet, frame, 0, packet.payload_length);
}

// Adds `length` payload bytes of the request at the cursor, from `offset` on, to the frame under
// construction. `stable` as in TxFrame. False: a key, a bound or a page is wrong.
inline bool gather_payload(Engine& engine, QueuePair& qp, uint64_t offset, uint32_t length,
                           bool stable, FrameBuilder& out) noexcept {
  const uint32_t index = qp.req.next_index;
  if (qp.sq[index].is_inline) {
    out.add_safe_payload(qp.sq.inline_data(index) + offset, length);
    return true;
  }
  const Sge* sges = qp.sq.sges(index);
  for (uint32_t i = 0; length != 0; ++i) {
    if (offset >= sges[i].length) {
      offset -= sges[i].length;
      continue;
    }
    const uint32_t piece =
        static_cast<uint32_t>(std::min<uint64_t>(length, sges[i].length - offset));
    const uint64_t address = reinterpret_cast<uint64_t>(sges[i].address) + offset;
    std::byte* where;
    if (engine.keys().check(sges[i].lkey.value, qp.domain, address, piece, Access::none, &where) !=
        memory::Verdict::ok)
      return false;
    if (!out.add_payload(where, piece, stable)) return false;
    length -= piece;
    offset = 0;
  }
  return true;
}

}  // namespace weft::roce
