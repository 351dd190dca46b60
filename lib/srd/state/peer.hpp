// SPDX-License-Identifier: BSD-3-Clause
// All state for one other endpoint (an open device: an address and the top 8 bits of its QPNs),
// whatever the number of queue pairs on both sides. The two halves share only the address: a stream
// of packets to it, and one from it.
#pragma once

#include <memory>

#include "lib/base/line.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/srd/state/key_guesses.hpp"
#include "lib/srd/state/receiver.hpp"
#include "lib/srd/state/sender.hpp"
#include "weft/types.hpp"

namespace weft::srd {

struct Peer;

// The process of the peer whose streams are accepted, and by what they name us.
struct Introduced {
  uint64_t incarnation = 0;  // ours; 0: no stream is accepted
  uint64_t stamp = 0;        // when it was issued, or the newest one that was refused
  uint64_t process = 0;      // the peer's
  uint64_t ended = 0;        // ours, before it was ended here (fail_peer)
};

// What an endpoint tells another one, so that this one can send to it without a hello.
struct Credentials {
  uint64_t incarnation = 0, stamp = 0, process = 0;
};

// A node of the timer wheel, with its owner.
struct PeerTimer : base::TimerNode {
  Peer* owner = nullptr;
};

struct Peer {
  Gid address;
  uint32_t qpn_prefix = 0;  // top 8 bits of its QPNs
  uint32_t index = 0;       // in the peer table
  uint32_t last_epoch = 0;  // of our streams
  bool in_memory = false;   // frames to it cross in memory (Path::in_memory)
  Introduced introduced;
  Sender tx;
  // Apart from what each message touches: with many peers none of it is in a near cache.
  base::LineLink<Peer> active;  // in Context::active: something to send
  PeerTimer timer;
  std::unique_ptr<Rails> rails;   // null: no further addresses are known
  Instant used_at;                // last packet in either direction
  base::LineLink<Peer> ack_link;  // in AckQueue: an acknowledgement is queued
  Receiver rx;
  KeyGuesses guesses;

  QpNum endpoint() const { return QpNum{qpn_prefix << 16}; }
};

}  // namespace weft::srd
