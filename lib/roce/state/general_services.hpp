// SPDX-License-Identifier: BSD-3-Clause
// The interface of the services behind queue pair 1 of a port (general service interface): they get
// the management datagrams (MADs) that arrive and return those to send. The engine checks Q_Key,
// source queue pair and length, and does not parse the contents.
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
  // A MAD of 256 bytes with a valid Q_Key, from queue pair 1 at `from`.
  virtual void on_datagram(std::span<const std::byte> bytes, const Gid& from,
                           Instant now) noexcept = 0;
  // The first request of the peer arrived at a connected queue pair.
  virtual void on_first_request(QpNum number, const Gid& peer, QpNum peer_number,
                                Instant now) noexcept = 0;
  // The next MAD to send; nullptr: none. Valid until the next call.
  virtual const ManagementDatagram* next_datagram() noexcept = 0;
  virtual bool wants_transmit() const noexcept = 0;
  virtual void expire(Instant now) noexcept = 0;
  virtual Instant next_deadline() const noexcept = 0;

 protected:
  ~GeneralServices() = default;
};

}  // namespace weft::roce
