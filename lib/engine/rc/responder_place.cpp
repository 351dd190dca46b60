// SPDX-License-Identifier: BSD-3-Clause
// Placing payload: the one copy on receive, from the port's buffer (or the sender's memory)
// straight to its final address. The key is checked for every packet, so a region that was revoked
// in the middle of a message is not touched any more.
#include <algorithm>

#include "lib/engine/rc/rc.hpp"
#include "lib/memory/guarded_copy.hpp"

namespace weft::engine::rc {

//= roce:C-OPS-81 the copy ends with a release store of the last aligned word
Placed copy_payload(Engine& engine, std::byte* to, const wire::Packet& packet, const Frame& frame,
                    uint32_t offset, uint32_t length) noexcept {
  if (frame.remote != nullptr && frame.remote_length != 0) {
    engine.count(Count::rx_by_reference);
    return frame.remote->pull(to, frame.remote_address + offset, length) ? Placed::ok
                                                                         : Placed::not_pulled;
  }
  const std::byte* from = frame.more_length != 0 ? frame.more : packet.payload;
  return memory::copy_in(to, from + offset, length) ? Placed::ok : Placed::access_error;
}

Placed place_send(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                  const Frame& frame) noexcept {
  const uint32_t index = qp.rq.head();
  const RecvEntry& entry = qp.rq[index];
  uint64_t offset = qp.res.received;
  if (offset + packet.payload_length > entry.length) return Placed::too_long;
  const Sge* sges = qp.rq.sges(index);
  uint32_t done = 0;
  for (uint32_t i = 0; done != packet.payload_length; ++i) {
    if (offset >= sges[i].length) {
      offset -= sges[i].length;
      continue;
    }
    const uint32_t piece = static_cast<uint32_t>(
        std::min<uint64_t>(packet.payload_length - done, sges[i].length - offset));
    std::byte* where;
    if (engine.keys().check(sges[i].lkey.value, qp.domain,
                            reinterpret_cast<uint64_t>(sges[i].address) + offset, piece,
                            Access::local_write, &where) != memory::Verdict::ok)
      return Placed::local_error;
    const Placed placed = copy_payload(engine, where, packet, frame, done, piece);
    if (placed != Placed::ok) return placed;
    done += piece;
    offset = 0;
  }
  return Placed::ok;
}

Placed place_write(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                   const Frame& frame) noexcept {
  if (packet.payload_length == 0) return Placed::ok;
  const Responder& res = qp.res;
  std::byte* where;
  if (engine.keys().check(res.write_key, qp.domain, res.write_address + res.received,
                          packet.payload_length, Access::remote_write,
                          &where) != memory::Verdict::ok)
    return Placed::access_error;
  return copy_payload(engine, where, packet, frame, 0, packet.payload_length);
}

}  // namespace weft::engine::rc
