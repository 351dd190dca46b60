// SPDX-License-Identifier: BSD-3-Clause
// What answers at queue pair 1 of a port, the general service interface: whoever it is gets the
// management datagrams that come, and gives those that are to go. The engine is their queue pair:
// it checks key and length, and knows nothing of what they say.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::roce {

struct ManagementDatagram {
  Gid to;
  std::array<std::byte, 256> bytes;
};

// Called with the lock of the engine held. Work per call is bounded.
class GeneralServices {
 public:
  // 256 bytes with the right key, from queue pair 1 at `from`.
  virtual void on_datagram(std::span<const std::byte> bytes, const Gid& from,
                           Instant now) noexcept = 0;
  // The first request of its peer has come to a queue pair that was told who its peer is.
  virtual void on_first_request(QpNum number, const Gid& peer, QpNum peer_number,
                                Instant now) noexcept = 0;
  // The next to send; nullptr: none. Valid until the next call.
  virtual const ManagementDatagram* next_datagram() noexcept = 0;
  virtual bool wants_transmit() const noexcept = 0;
  virtual void expire(Instant now) noexcept = 0;
  virtual Instant next_deadline() const noexcept = 0;

 protected:
  ~GeneralServices() = default;
};

}  // namespace weft::roce
