// SPDX-License-Identifier: BSD-3-Clause
// See payload.hpp.
#include "lib/roce/message/payload.hpp"

namespace weft::roce {

Placed scatter_payload(Engine& engine, uint32_t domain, const Sge* sges, uint64_t offset,
                       const wire::Packet& packet, const Frame& frame) noexcept {
  const auto copy = [&](std::byte* where, uint32_t done, uint32_t piece) {
    return copy_payload(engine, where, packet, frame, done, piece);
  };
  return scatter(engine, domain, sges, offset, packet.payload_length, copy);
}

}  // namespace weft::roce
