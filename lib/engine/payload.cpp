// SPDX-License-Identifier: BSD-3-Clause
// See payload.hpp. Receiving is the one copy: from the port's buffer (or the sender's memory)
// straight to the final address.
#include "lib/engine/payload.hpp"

#include "lib/memory/guarded_copy.hpp"

namespace weft::engine {

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

Placed scatter_payload(Engine& engine, uint32_t domain, const Sge* sges, uint64_t offset,
                       const wire::Packet& packet, const Frame& frame) noexcept {
  const auto copy = [&](std::byte* where, uint32_t done, uint32_t piece) {
    return copy_payload(engine, where, packet, frame, done, piece);
  };
  return scatter(engine, domain, sges, offset, packet.payload_length, copy);
}

Placed place_write(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                   const Frame& frame) noexcept {
  if (packet.payload_length == 0) return Placed::ok;
  const Responder& res = qp.res;
  std::byte* where;
  if (engine.keys().check(res.write_key, qp.visitor(), res.write_address + res.received,
                          packet.payload_length, Access::remote_write,
                          &where) != memory::Verdict::ok)
    return Placed::access_error;
  return copy_payload(engine, where, packet, frame, 0, packet.payload_length);
}

}  // namespace weft::engine
