// SPDX-License-Identifier: BSD-3-Clause
// See turns.hpp.
#include "lib/sim/hosts/engine/turns.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim::engines {
namespace {

constexpr int kAckDelay = 64;  // calls of transmit() by which an engine may delay an ACK

}  // namespace

void Turns::receive(Station& station) {
  transport::Frame frame;
  const size_t n = station.port.receive({&frame, 1});
  WEFT_DCHECK(n == 1);
  station.engine.receive({&frame, n}, Instant{wheel_.now()});
  station.port.release({&frame, n});
}

void Turns::run(Station& station) {
  const Instant now{wheel_.now()};
  if (station.engine.next_deadline() <= now) station.engine.expire(now);
  while (station.port.send_held() || send_one(station)) continue;
}

// Moves one frame from the engine to the port. The engine delays an ACK by some calls so that it
// can be piggy-backed on data; in virtual time these calls are one.
bool Turns::send_one(Station& station) {
  if (!station.port.has_room()) return false;
  transport::TxFrame frame;
  for (int i = 0; i < kAckDelay && station.engine.wants_transmit(); ++i)
    if (station.engine.transmit({&frame, 1}, Instant{wheel_.now()}) != 0)
      return station.port.transmit({&frame, 1}) != 0;
  return false;
}

// The next turn: when the link is idle if frames wait for that, else at the engine's deadline.
void Turns::plan(Station& station) {
  const int64_t now = wheel_.now();
  const int64_t idle = fabric_.port(station.number).free_at;
  const bool waits = idle > now && (station.engine.wants_transmit() || station.port.has_held());
  int64_t at = station.engine.next_deadline().is_never()
                   ? flow::kNever
                   : std::max(station.engine.next_deadline().ps, idle > now ? idle : now + 1);
  if (waits) at = std::min(at, idle);
  if (at >= station.wake_at) return;
  WEFT_DCHECK(at > now);
  station.wake_at = at;
  wheel_.plan(at, fabric::Event::nic_wake, station.number);
}

bool Turns::is_current(Station& station, const fabric::Packet& event) noexcept {
  if (event.at != station.wake_at) return false;
  station.wake_at = flow::kNever;
  return true;
}

}  // namespace weft::sim::engines
